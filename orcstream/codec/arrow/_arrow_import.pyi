from typing import Any, NamedTuple

class ArrowField(NamedTuple):
    format: str
    name: str
    metadata: tuple[tuple[bytes, bytes], ...]
    children: tuple[ArrowField, ...]
    dictionary: ArrowField | None

class ArrowColumn(NamedTuple):
    field: ArrowField
    length: int
    offset: int
    buffers: tuple[Any, ...]  # buffers, or None; the last of views is a tuple of buffers
    children: tuple[ArrowColumn, ...]
    dictionary: ArrowColumn | None

class ArrowMemory:
    nbytes: int
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class ArrowStream:
    field: ArrowField
    def __init__(self, capsule: object, most_levels: int) -> None: ...
    def read(self) -> ArrowColumn | None: ...
    def close(self) -> None: ...

def import_schema(capsule: object, most_levels: int) -> ArrowField: ...
def import_array(schema_capsule: object, array_capsule: object, most_levels: int) -> ArrowColumn: ...
