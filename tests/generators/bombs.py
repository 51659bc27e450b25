"""Small files that claim much: metadata of millions of parts, lengths beyond all memory, chunks of nothing.

Each is legal as far as one field can say, or lies in the one number that its name says. `BOMBS` makes them by
name; those of `sparse` lengths are as long as they claim and take no room on disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.reference import compression, wire
from tests.reference.reader import DATA, DIRECT, DIRECT_V2, ROW_INDEX
from tests.reference.varint import write_varint

MAGIC = b"ORC"
BLOCK = 1 << 20
SPARSE_BYTES = 6 << 30
_INT, _LONG, _STRUCT = 3, 4, 12


def field(number: int, content: bytes) -> bytes:
    return wire.message((number, content))


def struct_of(names: Iterable[str | bytes]) -> bytes:
    """The types of a struct of longs, as fields of a footer."""
    listed = list(names)
    root = wire.message((1, _STRUCT), (2, range(1, len(listed) + 1)), *wire.repeated(3, listed))
    return field(4, root) + field(4, wire.message((1, _LONG))) * len(listed)


def tail(body: bytes, footer: bytes, metadata: bytes = b"", *, block: int = BLOCK) -> bytes:
    """A file of these sections, compressed with zlib."""
    sections = [
        compression.frame(part, compression.ZLIB, block) if part else b"" for part in (metadata, footer)
    ]
    return body + b"".join(sections) + postscript(len(sections[1]), len(sections[0]), compression.ZLIB, block)


def postscript(footer: int, metadata: int, kind: int, block: int = BLOCK) -> bytes:
    found = wire.message(
        (1, footer), (2, kind), (3, block), (4, (0, 12)), (5, metadata), (6, 9), (8000, MAGIC)
    )
    return found + bytes((len(found),))


def stripe_at(index: int, data: int, footer: int, rows: int) -> bytes:
    """One stripe behind the magic, as a field of a footer, and how many rows there are."""
    place = wire.message((1, len(MAGIC)), (2, index), (3, data), (4, footer), (5, rows))
    return field(3, place) + wire.message((6, rows), (8, 10_000))


def one_stripe(
    names: list[str], index: bytes, data: bytes, footer: bytes, rows: int, *, block: int = BLOCK
) -> bytes:
    framed = compression.frame(footer, compression.ZLIB, block)
    return tail(
        MAGIC + index + data + framed,
        struct_of(names) + stripe_at(len(index), len(data), len(framed), rows),
        block=block,
    )


def stream(kind: int, column: int, length: int) -> bytes:
    return field(1, wire.message((1, kind), (2, column), (3, length)))


def encodings(count: int) -> bytes:
    """Of the root and so many columns."""
    return field(2, wire.message((1, DIRECT))) + field(2, wire.message((1, DIRECT_V2))) * count


# --- the footer ------------------------------------------------------------------------------------


def footer_of(part: bytes, size: int) -> bytes:
    """A footer with as many of a part as are `size` bytes long."""
    return tail(MAGIC, struct_of(["a"]) + wire.message((6, 0)) + part * (size // len(part)))


def empty_stripes(size: int) -> bytes:
    return footer_of(field(3, wire.message((1, 3), (2, 0), (3, 0), (4, 0), (5, 0))), size)


def user_metadata(size: int) -> bytes:
    return footer_of(field(5, wire.message((1, "n"), (2, b""))), size)


def statistics(size: int) -> bytes:
    return footer_of(field(7, b""), size)


def columns(count: int) -> bytes:
    return tail(MAGIC, struct_of([b"x%d" % number for number in range(count)]) + wire.message((6, 0)))


def nested(depth: int, count: int, name: str) -> bytes:
    """Structs of this name, one in the other, and so many columns in the innermost, all with statistics."""
    outer = (wire.message((1, _STRUCT), (2, [below]), (3, name)) for below in range(1, depth + 1))
    inner = wire.message(
        (1, _STRUCT),
        (2, range(depth + 1, depth + 1 + count)),
        *wire.repeated(3, [f"x{number}" for number in range(count)]),
    )
    types = [*outer, inner, *[wire.message((1, _LONG))] * count]
    known = field(7, wire.message((1, 0))) * len(types)
    return tail(MAGIC, b"".join(field(4, one) for one in types) + wire.message((6, 0)) + known)


def attributes(size: int) -> bytes:
    pair = field(7, wire.message((1, "k"), (2, "v")))
    types = (
        wire.message((1, _STRUCT), (2, [1]), (3, "a")),
        wire.message((1, _LONG)) + pair * (size // len(pair)),
    )
    return tail(MAGIC, b"".join(field(4, type_) for type_ in types) + wire.message((6, 0)))


def encryption(number: int, part: bytes, size: int) -> bytes:
    """An encryption section of many masks (1), keys (2) or variants (3)."""
    section = field(number, part) * (size // (len(part) + 2))
    return footer_of(field(10, section), len(section) + 12)


def unknown_groups(depth: int) -> bytes:
    """Groups of a field that nobody knows, one within the other."""
    start, end = write_varint(99 << 3 | 3), write_varint(99 << 3 | 4)
    return tail(MAGIC, struct_of(["a"]) + wire.message((6, 0)) + start * depth + end * depth)


def unknown_fields(size: int) -> bytes:
    return footer_of(wire.message((99, 1)), size)


# --- stripes ---------------------------------------------------------------------------------------


def stripe_footer(part: bytes, size: int) -> bytes:
    """A stripe footer with as many of a part as are `size` bytes long."""
    return one_stripe(["a"], b"", b"", encodings(1) + part * (size // len(part)), 10)


def row_indexes(count: int, plain: bytes, rows: int = 20_000) -> bytes:
    """The same row index for so many columns."""
    index = compression.frame(plain, compression.ZLIB, BLOCK)
    streams = b"".join(stream(ROW_INDEX, column, len(index)) for column in range(1, count + 1))
    footer = streams + stream(DATA, 1, 0) + encodings(count)
    return one_stripe([f"c{number}" for number in range(count)], index * count, b"", footer, rows)


def positions(count: int, size: int) -> bytes:
    """Row indexes of one entry, with a position for each byte."""
    return row_indexes(count, field(1, field(1, bytes(size))))


def entries(count: int, size: int) -> bytes:
    """Row indexes of empty entries, for as many row groups as it takes."""
    return row_indexes(count, field(1, b"") * (size // 2), rows=10_000 * (size // 2))


def bloom_filters(count: int, size: int) -> bytes:
    part = field(1, wire.message((1, 1), (3, bytes(8))))
    index = compression.frame(part * (size // len(part)), compression.ZLIB, BLOCK)
    streams = b"".join(stream(8, column, len(index)) for column in range(1, count + 1))
    rows = 10_000 * (size // len(part))
    footer = streams + stream(DATA, 1, 0) + encodings(count)
    return one_stripe([f"c{number}" for number in range(count)], index * count, b"", footer, rows)


def wide_chunks(count: int, block: int) -> bytes:
    """Columns whose data are one chunk each, of runs that go on for a whole block."""
    chunk = compression.frame(bytes(block - 1), compression.ZLIB, block)
    footer = b"".join(stream(DATA, column, len(chunk)) for column in range(1, count + 1)) + encodings(count)
    names = [f"c{number}" for number in range(count)]
    return one_stripe(names, b"", chunk * count, footer, block // 4, block=block)


def stripes_of_columns(stripes: int, count: int, metadata: bytes = b"") -> bytes:
    """Many stripes of no bytes and one row each, of many columns."""
    place = field(3, wire.message((1, 3), (2, 0), (3, 0), (4, 0), (5, 1)))
    names = struct_of([f"c{number}" for number in range(count)])
    return tail(MAGIC, names + place * stripes + wire.message((6, stripes)), metadata)


def stripe_statistics(stripes: int, count: int) -> bytes:
    """File metadata of empty statistics for many stripes of many columns."""
    return stripes_of_columns(stripes, count, field(1, field(1, b"") * (count + 1)) * stripes)


# --- lengths ---------------------------------------------------------------------------------------


def sparse(path: Path, where: str) -> None:
    """A file as long as its claim: of a footer, a metadata section, a stripe footer or an index."""
    claimed = SPARSE_BYTES - 1000
    footer = struct_of(["a"])
    at, piece = SPARSE_BYTES, b""
    if where == "stripe_footer":
        footer += stripe_at(0, 0, claimed, 10)
    elif where == "index":
        piece = stream(ROW_INDEX, 1, claimed) + stream(DATA, 1, 10) + encodings(1)
        footer += stripe_at(claimed, 10, len(piece), 20_000)
    else:
        footer += wire.message((6, 0))
    lengths = (claimed if where == "footer" else len(footer), claimed if where == "metadata" else 0)
    with path.open("wb") as out:
        out.write(MAGIC)
        if piece:
            out.seek(len(MAGIC) + claimed + 10)
            out.write(piece)
        out.seek(at)
        out.write(footer + postscript(*lengths, compression.NONE))
    os.truncate(path, path.stat().st_size)


MB = 1 << 20
BOMBS: dict[str, Callable[[], bytes]] = {
    "stripes": lambda: empty_stripes(31 * MB),
    "stripes below the limit": lambda: empty_stripes(MB),
    "user metadata": lambda: user_metadata(31 * MB),
    "user metadata below the limit": lambda: user_metadata(MB // 2),
    "statistics": lambda: statistics(31 * MB),
    "statistics below the limit": lambda: statistics(MB),
    "columns": lambda: columns(700_000),
    "paths": lambda: nested(190, 20_000, "n" * 1000),
    "paths below the limit": lambda: nested(180, 8000, "n"),
    "attributes": lambda: attributes(15 * MB),
    "masks": lambda: encryption(1, b"", 15 * MB),
    "parameters of masks": lambda: encryption(1, field(2, b"") * 60, 15 * MB),
    "keys": lambda: encryption(2, b"", 15 * MB),
    "variants": lambda: encryption(3, b"", 15 * MB),
    "streams of variants": lambda: encryption(3, field(4, b"") * 60, 15 * MB),
    "unknown fields": lambda: unknown_fields(15 * MB),
    "groups": lambda: unknown_groups(5_000_000),
    "streams": lambda: stripe_footer(stream(77, 0, 0), 15 * MB),
    "encodings": lambda: stripe_footer(field(2, b""), 15 * MB),
    "variants of a stripe": lambda: stripe_footer(field(4, b""), 15 * MB),
    "zone": lambda: stripe_footer(field(3, b"x" * (15 * MB)), 15 * MB),
    "positions": lambda: positions(1, 15 * MB),
    "positions of 200 columns": lambda: positions(200, 15 * MB),
    "positions of 2000 columns": lambda: positions(2000, 50),
    "entries": lambda: entries(1, 15 * MB),
    "entries of 100 columns": lambda: entries(100, MB),
    "bloom filters": lambda: bloom_filters(1, 15 * MB),
    "bloom filters of 100 columns": lambda: bloom_filters(100, MB),
    "chunks": lambda: wide_chunks(1000, 1 << 23),
    "stripes of columns": lambda: stripes_of_columns(70_000, 1900),
    "statistics of stripes": lambda: stripe_statistics(20_000, 500),
    "statistics of stripes below the limit": lambda: stripe_statistics(2000, 200),
}
SPARSE = ("footer", "metadata", "stripe_footer", "index")


def write_all(folder: Path) -> dict[str, Path]:
    """Every bomb as a file, by name."""
    found: dict[str, Path] = {}
    for name, make in BOMBS.items():
        found[name] = folder / f"{name.replace(' ', '-')}.orc"
        found[name].write_bytes(make())
    for where in SPARSE:
        found[f"sparse {where}"] = folder / f"sparse-{where}.orc"
        sparse(found[f"sparse {where}"], where)
    return found
