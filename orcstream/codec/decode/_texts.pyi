from collections.abc import Sequence

from orcstream.codec.decode._column import ColumnDecoder
from orcstream.codec.streams._values import BoolValues, Values
from orcstream.schema.types import Type

class TextColumn(ColumnDecoder): ...

class TextDecoder(TextColumn):
    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        values: Sequence[Values],
        *,
        validate: bool,
        dictionaries: bool,
    ) -> None: ...

class DictionaryDecoder(TextColumn):
    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        values: Sequence[Values],
        size: int,
        *,
        validate: bool,
        dictionaries: bool,
    ) -> None: ...
