from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orcstream._buffer import Buffer

Numbers: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.uint8]

def decimals_from_numbers(
    values: Numbers, words: int, mask: Mask, value_scale: int, precision: int, scale: int
) -> Buffer: ...
def decimals_from_doubles(
    values: NDArray[np.floating[Any]], mask: Mask, precision: int, scale: int
) -> Buffer: ...
def ints_from_decimals(values: Numbers, mask: Mask, scale: int) -> Buffer: ...
def doubles_from_decimals(values: Numbers, mask: Mask, scale: int) -> Buffer: ...
def ticks_from_decimals(values: Numbers, mask: Mask, scale: int, unit_digits: int) -> tuple[Buffer, int]: ...
def ticks_from_seconds(
    seconds: Numbers, nanos: NDArray[np.int32], mask: Mask, unit: int
) -> tuple[Buffer, int]: ...
