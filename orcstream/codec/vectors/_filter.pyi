from collections.abc import Sequence

from orcstream._buffer import Buffer

class Texts:
    count: int
    def __init__(
        self,
        offsets: object,
        data: object,
        first: int,
        count: int,
        indexes: object = None,
        size: int = 0,
    ) -> None: ...

class TextSet:
    def __init__(self, literals: Sequence[bytes]) -> None: ...

class NumberSet:
    def __init__(self, literals: Sequence[int]) -> None: ...

def match_integers(
    values: object, first: int, count: int, item_bytes: int, literals: NumberSet
) -> Buffer: ...
def compare_texts(texts: Texts, op: int, literal: bytes) -> Buffer: ...
def match_texts(texts: Texts, literals: TextSet) -> Buffer: ...
def compare_decimals(values: object, first: int, count: int, op: int, high: int, low: int) -> Buffer: ...
def match_decimals(values: object, first: int, count: int, literals: bytes) -> Buffer: ...
