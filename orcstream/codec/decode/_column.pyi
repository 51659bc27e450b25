from collections.abc import Sequence

from orcstream.codec.streams._codecs import Codec
from orcstream.codec.streams._stream import InputStream
from orcstream.codec.streams._values import BoolValues, Values
from orcstream.codec.vectors.column import Vector
from orcstream.schema.types import Type

class Turn:
    dictionary_limit: int
    dry: int
    def __init__(self, codec: Codec, dictionary_limit: int = ..., most_bytes: int = ...) -> None: ...

class ColumnDecoder:
    type: Type
    row_bytes: int
    is_fixed: bool
    leaf_count: int
    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        values: Sequence[Values],
        children: Sequence[ColumnDecoder] = (),
    ) -> None: ...
    def streams(self) -> list[InputStream]: ...
    def ready_rows(self, count: int, budget: int, turn: Turn) -> int: ...
    def take_rows(self, count: int) -> Vector: ...
    def held_bytes(self, *, trim: bool) -> int: ...

class DecodeTask:
    dropped: int
    row_count: int
    size: int
    dictionary_bytes: int
    seconds: float
    def __init__(
        self,
        decoder: ColumnDecoder,
        rows: int,
        budget: int,
        limit: int,
        rows_to_drop: int,
        drop_budget: int,
        previous: DecodeTask | None,
    ) -> None: ...
    def vector(self) -> Vector | None: ...

class Stop:
    def set(self) -> None: ...

class Permits:
    def __init__(self, count: int) -> None: ...

def decode(tasks: list[DecodeTask], turn: Turn, stop: Stop, permits: Permits) -> tuple[float, float]: ...
