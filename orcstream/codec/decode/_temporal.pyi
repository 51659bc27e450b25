import numpy as np
from numpy.typing import NDArray

from orcstream._buffer import Buffer

def dates(days: Buffer, count: int, hybrid: bool) -> Buffer: ...
def timestamps(
    seconds: Buffer,
    nanos: Buffer,
    count: int,
    base_seconds: int,
    transitions: NDArray[np.int64],
    offsets: NDArray[np.int64],
    hybrid: bool,
    unit: int,
) -> tuple[Buffer, int, int]: ...
def decimals(values: Buffer, scales: Buffer | None, count: int, scale: int, precision: int) -> int: ...
def widen(values: Buffer, count: int) -> Buffer: ...
