from orcstream._buffer import Buffer

def check_texts(
    offsets: object, data: object, count: int, mask: object, most: int, trim: bool
) -> tuple[int, int, bool]: ...
def texts_of_views(
    views: object, start: int, count: int, mask: object, data: tuple[object, ...]
) -> tuple[Buffer, Buffer, int] | tuple[None, None, int]: ...
def fit_decimals(
    values: object,
    start: int,
    count: int,
    width: int,
    mask: object,
    from_scale: int,
    precision: int,
    scale: int,
) -> tuple[Buffer, int] | tuple[None, int]: ...
