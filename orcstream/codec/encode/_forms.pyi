from collections.abc import Sequence

from orcstream.codec.crypto.masks import Masking
from orcstream.codec.encode._column import ColumnEncoder
from orcstream.schema.types import Type

class FormsEncoder(ColumnEncoder):
    variants: tuple[int | None, ...]
    def __init__(
        self,
        type_: Type,
        forms: Sequence[ColumnEncoder],
        maskings: Sequence[Masking | None],
        variants: Sequence[int | None],
    ) -> None: ...
