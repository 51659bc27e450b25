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
def unwritable_timestamps(
    values: object,
    bitmap: object,
    first: int,
    count: int,
    transitions: NDArray[np.int64],
    offsets: NDArray[np.int64],
    hybrid: bool,
    unit: int,
    passed: int = 0,
) -> tuple[int, int]: ...
def unwritable_days(values: object, bitmap: object, first: int, count: int) -> int: ...
def hybrid_days(values: object, first: int, count: int) -> Buffer: ...
def hybrid_times(values: object, first: int, count: int, unit: int) -> Buffer: ...
def encode_timestamps(
    values: object,
    first: int,
    count: int,
    transitions: NDArray[np.int64],
    offsets: NDArray[np.int64],
    hybrid: bool,
    unit: int,
    base_seconds: int,
) -> tuple[Buffer, Buffer]: ...
