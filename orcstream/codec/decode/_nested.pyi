from collections.abc import Sequence

from orcstream.codec.decode._column import ColumnDecoder
from orcstream.codec.streams._values import BoolValues, Values
from orcstream.schema.types import Type

class StructDecoder(ColumnDecoder): ...

class ListDecoder(ColumnDecoder):
    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        values: Sequence[Values],
        children: Sequence[ColumnDecoder],
        *,
        is_map: bool,
    ) -> None: ...

class UnionDecoder(ColumnDecoder): ...
