from orcstream._buffer import Buffer
from orcstream.codec.vectors._selection import Selection

def gather_fixed(
    out: Buffer, at: int, source: object, base: int, selection: Selection, item_bytes: int
) -> None: ...
def add_to(items: Buffer, at: int, count: int, shift: int) -> None: ...
def fill(out: Buffer, at: int, count: int) -> None: ...
def gather_bits(out: Buffer, at: int, source: object, base: int, selection: Selection) -> None: ...
def measure_texts(offsets: object, base: int, data: object, selection: Selection) -> int: ...
def gather_texts(
    out_offsets: Buffer,
    at: int,
    out: Buffer,
    offsets: object,
    base: int,
    data: object,
    selection: Selection,
) -> None: ...
def gather_lists(
    out_offsets: Buffer, at: int, offsets: object, base: int, selection: Selection, items: int
) -> Selection: ...
def gather_union(
    out_types: Buffer,
    out_offsets: Buffer,
    at: int,
    types: object,
    offsets: object,
    base: int,
    selection: Selection,
    child_rows: list[int],
    used: list[int],
) -> list[Selection]: ...
def entries_of(
    indexes: object,
    base: int,
    validity: object,
    validity_base: int,
    selection: Selection,
    size: int,
) -> Selection: ...
