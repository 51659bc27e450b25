from typing import NamedTuple

__all__ = ["ArrowField", "import_schema"]

class ArrowField(NamedTuple):
    format: str
    name: str
    metadata: tuple[tuple[bytes, bytes], ...]
    children: tuple[ArrowField, ...]
    dictionary: ArrowField | None

def import_schema(capsule: object, most_levels: int) -> ArrowField: ...
