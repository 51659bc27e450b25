from collections.abc import Callable

from typing_extensions import Buffer as ReadableBuffer

from orcstream._buffer import Buffer
from orcstream.codec.streams._codecs import Codec

class InputStream:
    column: int
    kind: str
    file_offset: int
    stream_start: int
    consumed: int
    complete: bool
    is_dry: bool
    def __init__(
        self,
        *,
        compressed: bool,
        block_size: int,
        column: int = -1,
        kind: str = "",
        file_offset: int = 0,
        decrypt: Callable[[memoryview, int, memoryview], None] | None = None,
    ) -> None: ...
    def feed(self, piece: ReadableBuffer, *, last: bool, lease: object = None) -> None: ...
    def held_bytes(self, trim: bool) -> int: ...
    def restart(self, *, file_offset: int, bytes_to_skip: int = 0) -> None: ...
    @property
    def starved(self) -> bool: ...
    @property
    def buffered_bytes(self) -> int: ...
    def read(self, count: int, codec: Codec) -> Buffer: ...
    def skip(self, count: int, codec: Codec) -> int: ...
