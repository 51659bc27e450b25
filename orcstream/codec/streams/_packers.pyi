from collections.abc import Callable

from typing_extensions import Buffer as ReadableBuffer

class Packer:
    def __call__(self, block: ReadableBuffer) -> bytes | None: ...

class PythonPacker(Packer):
    def __init__(self, compress: Callable[[memoryview, memoryview], int]) -> None: ...

class LibdeflatePacker(Packer):
    def __init__(self, level: int, allocate: int, compress: int, free: int) -> None: ...

class ZstdPacker(Packer):
    def __init__(
        self, level: int, allocate: int, set_parameter: int, compress: int, free: int, is_error: int
    ) -> None: ...
