from collections.abc import Callable

from typing_extensions import Buffer as ReadableBuffer

class Codec:
    name: str
    def __init__(self, name: str) -> None: ...
    def __call__(self, chunk: ReadableBuffer, out: ReadableBuffer) -> int: ...

class PythonCodec(Codec):
    def __init__(self, name: str, decompress: Callable[[memoryview, memoryview], int]) -> None: ...

class LibdeflateCodec(Codec):
    def __init__(self, name: str, allocate: int, decompress: int, free: int) -> None: ...

class ZstdCodec(Codec):
    def __init__(
        self,
        name: str,
        allocate: int,
        decompress: int,
        free: int,
        content_size: int,
        frame_size: int,
        is_error: int,
        error_name: int,
    ) -> None: ...

class LoopCodec(Codec): ...
