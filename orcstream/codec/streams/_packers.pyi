from collections.abc import Callable

class Packer: ...

class PythonPacker(Packer):
    def __init__(self, compress: Callable[[memoryview, memoryview], int]) -> None: ...

class LibdeflatePacker(Packer):
    def __init__(self, level: int, allocate: int, compress: int, free: int) -> None: ...

class ZstdPacker(Packer):
    def __init__(
        self, level: int, allocate: int, set_parameter: int, compress: int, free: int, is_error: int
    ) -> None: ...
