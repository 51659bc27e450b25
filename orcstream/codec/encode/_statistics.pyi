from orcstream.codec.vectors._filter import Texts

def integer_bounds(
    values: object, first: int, count: int, item_bytes: int, mask: object = None
) -> tuple[int, int, int, int]: ...
def float_bounds(
    values: object, first: int, count: int, item_bytes: int, mask: object = None
) -> tuple[int, float, float, float]: ...
def decimal_bounds(
    values: object, first: int, count: int, mask: object = None
) -> tuple[int, int, int, int]: ...
def text_bounds(
    texts: Texts, most: int, mask: object = None
) -> tuple[int, bytes | None, bytes | None, int]: ...
