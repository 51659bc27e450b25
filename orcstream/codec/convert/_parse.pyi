from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from orcstream._buffer import Buffer

Offsets: TypeAlias = NDArray[np.int32]
Bytes: TypeAlias = NDArray[np.uint8]
Mask: TypeAlias = NDArray[np.uint8]

def parse_ints(offsets: Offsets, data: Bytes, mask: Mask) -> Buffer: ...
def parse_doubles(offsets: Offsets, data: Bytes, mask: Mask) -> Buffer: ...
def parse_decimals(offsets: Offsets, data: Bytes, mask: Mask, precision: int, scale: int) -> Buffer: ...
def parse_dates(offsets: Offsets, data: Bytes, mask: Mask) -> Buffer: ...
def parse_timestamps(
    offsets: Offsets, data: Bytes, mask: Mask, zoned: bool
) -> tuple[Buffer, Buffer, Buffer, list[bytes]]: ...
