from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from orcstream._buffer import Buffer

Offsets: TypeAlias = NDArray[np.int32]
Bytes: TypeAlias = NDArray[np.uint8]
Mask: TypeAlias = NDArray[np.uint8]
Texts: TypeAlias = tuple[Buffer, Buffer]

def cut_texts(offsets: Offsets, data: Bytes, mask: Mask, most: int, trim: bool, pad: int) -> Texts | None: ...
def gather_texts(indexes: Offsets, mask: Mask, offsets: Offsets, data: Bytes) -> Texts: ...
