from typing import Any

from orcstream.codec.encode._column import ColumnEncoder
from orcstream.codec.metadata.structure import EncodingKind

class BinaryEncoder(ColumnEncoder): ...

class TextEncoder(BinaryEncoder):
    def __init__(
        self,
        *args: Any,
        dictionary_encoding: EncodingKind,
        threshold: float,
        pad_to: int = 0,
        **kwargs: Any,
    ) -> None: ...
