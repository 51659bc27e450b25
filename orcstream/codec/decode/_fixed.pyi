from collections.abc import Sequence

from orcstream.codec.decode._column import ColumnDecoder
from orcstream.codec.streams._values import BoolValues, Values
from orcstream.codec.vectors.times import Clock
from orcstream.schema.types import Type

class FixedDecoder(ColumnDecoder):
    def __init__(
        self, type_: Type, present: BoolValues | None, values: Sequence[Values], *, row_bytes: int
    ) -> None: ...

class BooleanDecoder(FixedDecoder): ...
class PlainDecoder(FixedDecoder): ...
class IntegerDecoder(FixedDecoder): ...

class DecimalDecoder(FixedDecoder):
    def __init__(self, type_: Type, present: BoolValues | None, values: Sequence[Values]) -> None: ...

class DateDecoder(FixedDecoder):
    def __init__(
        self, type_: Type, present: BoolValues | None, values: Sequence[Values], *, hybrid: bool
    ) -> None: ...

class TimestampDecoder(FixedDecoder):
    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        values: Sequence[Values],
        *,
        clock: Clock,
        hybrid: bool,
        unit: str,
    ) -> None: ...
