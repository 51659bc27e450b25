import numpy as np
from numpy.typing import NDArray

from orcstream._buffer import Buffer

def redact_texts(
    offsets: object,
    data: object,
    bitmap: object,
    first: int,
    count: int,
    blocks: NDArray[np.uint16],
    classes: NDArray[np.uint8],
    replacements: NDArray[np.int64],
    ranges: NDArray[np.int64],
    trims: bool,
) -> tuple[Buffer, Buffer]: ...
def redact_days(days: NDArray[np.int64], year: int, month: int, day: int) -> Buffer: ...
def digests(
    offsets: object,
    data: object,
    bitmap: object,
    first: int,
    count: int,
    hexadecimal: bool,
    most: int,
    trims: bool,
) -> tuple[Buffer, Buffer]: ...
