"""Schemas as users give them: an ORC schema, its text, or an Arrow schema of any library.

Knows which ORC type holds each Arrow type (by the format strings of the Arrow C data interface) and what
our own export keeps in metadata (`codec.vectors.column.field_of`, whose inverse this is). Must not know
any Arrow library: objects are asked for a capsule, which `_arrow_import` reads. Contract: each ORC type
is one whose values take all values of the Arrow type; an Arrow type without such a one is a
SchemaMismatch that names the field. Whether fields are nullable, names of time zones, the order of map
keys and sizes of fixed-size types are not kept: ORC types cannot say them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NoReturn

from orcstream.codec.arrow._arrow_import import ArrowField, import_schema
from orcstream.errors import SchemaMismatch, Unsupported, UsageError
from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import EDGE_ALGORITHMS, MAX_DEPTH, MAX_PRECISION, Kind, Type

_Path = tuple[str, ...]

_KINDS = {
    "b": Kind.BOOLEAN,
    "c": Kind.BYTE,
    **dict.fromkeys(("C", "s"), Kind.SHORT),
    **dict.fromkeys(("S", "i"), Kind.INT),
    **dict.fromkeys(("I", "l"), Kind.LONG),
    **dict.fromkeys(("e", "f"), Kind.FLOAT),
    "g": Kind.DOUBLE,
    **dict.fromkeys(("u", "U", "vu"), Kind.STRING),
    **dict.fromkeys(("z", "Z", "vz"), Kind.BINARY),
    **dict.fromkeys(("tdD", "tdm"), Kind.DATE),
    "+s": Kind.STRUCT,
    **dict.fromkeys(("+l", "+L", "+vl", "+vL"), Kind.LIST),
    "+m": Kind.MAP,
}
# Formats with parameters that ORC has no place for; the type codes of unions are checked apart.
_PATTERNS = (
    (re.compile(r"w:[0-9]+"), Kind.BINARY),
    (re.compile(r"ts[smun]:"), Kind.TIMESTAMP),
    (re.compile(r"ts[smun]:.+", re.DOTALL), Kind.TIMESTAMP_INSTANT),
    (re.compile(r"\+w:[0-9]+"), Kind.LIST),
    (re.compile(r"\+u[ds]:.*"), Kind.UNION),
)
_DECIMAL = re.compile(r"d:([0-9]{1,9}),(-?[0-9]{1,9})(?:,([0-9]{1,9}))?")
_DECIMAL_BITS = ("32", "64", "128", None)  # 128 where it is not said
_INDICES = frozenset("cCsSiIlL")
_RUN_ENDS = "+r"
# What ORC has no type for, and what to do about it.
_TIME = "a time of day; cast it to bigint, or to string"
_DURATION = "a duration; cast it to bigint"
_INTERVAL = "an interval; store its parts as integers"
_WITHOUT_PLACE = {
    "L": "an unsigned 64-bit integer; cast it to bigint where its values fit, or to decimal(20,0)",
    "n": "the null type; give it the type that its values shall have",
    **dict.fromkeys(("tts", "ttm", "ttu", "ttn"), _TIME),
    **dict.fromkeys(("tDs", "tDm", "tDu", "tDn"), _DURATION),
    **dict.fromkeys(("tiM", "tiD", "tin"), _INTERVAL),
}

# How our own export says what Arrow's types cannot: `Field.metadata`.
_ORC_TYPE = "orc.type"
_CHARACTERS = re.compile(r"(char|varchar)(?:\(([0-9]{1,10})\))?")
_GEOMETRY = re.compile(r"geometry\((.*)\)", re.DOTALL)
_GEOGRAPHY = re.compile(rf"geography\((.*),({'|'.join(EDGE_ALGORITHMS)})\)", re.DOTALL)
# Keys that speak of the Arrow type itself: extension types, the categories of polars.
_ARROW_KEYS = ("ARROW:", "_PL_")
_HOLDERS = {
    Kind.CHAR: (Kind.STRING, Kind.BINARY),
    Kind.VARCHAR: (Kind.STRING, Kind.BINARY),
    Kind.GEOMETRY: (Kind.BINARY,),
    Kind.GEOGRAPHY: (Kind.BINARY,),
}


def schema_of(value: object) -> Schema:
    """The schema that a user gave: a `Schema`, its text, or an object with `__arrow_c_schema__`.

    Objects of this package that carry their `Schema` answer that one. Arrow schemas have a struct at the
    root; the metadata of the whole schema is the table's and makes no type attributes. Raises UsageError for
    anything else, SchemaMismatch for a text or an Arrow schema that no ORC schema stands for, Unsupported
    for one that nests deeper than `MAX_DEPTH` levels.
    """
    if isinstance(value, Schema):
        return value
    if isinstance(value, str):
        return Schema.parse(value)
    export = None if isinstance(value, type) else getattr(value, "__arrow_c_schema__", None)
    if export is None:
        _refuse(value)
    carried = getattr(value, "schema", None)
    if isinstance(carried, Schema):
        return carried
    # A map takes two Arrow levels, its own and that of its entries; a dictionary's values take one more.
    return arrow_schema_of(import_schema(export(), 2 * MAX_DEPTH + 1))


def arrow_schema_of(field: ArrowField) -> Schema:
    """The schema of an Arrow struct of columns; raises as `schema_of`."""
    root = _type_of(field, ())
    if root.kind is not Kind.STRUCT:
        raise SchemaMismatch(f"the Arrow type of a schema is a struct of columns, not one of {root}")
    return numbered(replace(root, attributes=()))


def _refuse(value: object) -> NoReturn:
    found = f"a {type(value).__name__}"
    if isinstance(value, type):
        found = f"the class {value.__name__}"
    elif hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__"):
        found += ", which holds data: give its schema"
    raise UsageError(
        "a schema is a text such as 'struct<a:int,b:string>', an orcstream Schema, or an object with "
        f"__arrow_c_schema__ such as a pyarrow.Schema, not {found}"
    )


def _type_of(field: ArrowField, path: _Path) -> Type:
    # One frame for each level: Python's stack has to hold MAX_DEPTH of them, above the caller's.
    if len(path) >= MAX_DEPTH:
        raise Unsupported(f"the schema nests deeper than {MAX_DEPTH} levels", reason="schema_too_deep")
    stored = _stored(field, path)
    plain = _with_metadata(_plain(stored.format, path), field.metadata, path)
    names, below = _below(stored, plain.kind, path)
    children = []
    for step, child in zip(names, below, strict=True):
        children.append(_type_of(child, (*path, step)))
    field_names = names if plain.kind is Kind.STRUCT else ()
    return replace(plain, children=tuple(children), field_names=field_names)


def _stored(field: ArrowField, path: _Path) -> ArrowField:
    """The field whose type the values have: dictionaries and runs are encodings of one."""
    while True:
        if field.dictionary is not None:
            if field.format not in _INDICES:
                _fail(path, f"is a dictionary whose indices are no integers but {field.format!r}")
            field = field.dictionary
        elif field.format == _RUN_ENDS:
            _check_count(field, 2, path)
            field = field.children[1]
        else:
            return field


def _plain(format_: str, path: _Path) -> Type:
    """The type without children."""
    if format_ in _KINDS:
        return Type(_KINDS[format_])
    if format_ in _WITHOUT_PLACE:
        _fail(path, f"is {_WITHOUT_PLACE[format_]}")
    if format_.startswith("d:"):
        return _decimal(format_, path)
    kind = next((kind for pattern, kind in _PATTERNS if pattern.fullmatch(format_)), None)
    if kind is None:
        _fail(path, f"has the Arrow format {format_!r:.100}, which is not known here")
    return Type(kind)


def _decimal(format_: str, path: _Path) -> Type:
    found = _DECIMAL.fullmatch(format_)
    if found is None:
        _fail(path, f"has the malformed Arrow format {format_!r:.100}")
    precision, scale, bits = int(found[1]), int(found[2]), found[3]
    if bits not in _DECIMAL_BITS:
        _fail(
            path, f"is a decimal of {bits} bits; cast it to decimal128, with at most {MAX_PRECISION} digits"
        )
    if scale < 0:
        _fail(path, f"is a decimal of scale {scale}, and ORC's are not negative; cast it to one of scale 0")
    if not 1 <= precision <= MAX_PRECISION or scale > precision:
        _fail(
            path,
            f"is a decimal({precision},{scale}); ORC's have 1 to {MAX_PRECISION} digits, "
            "of which the scale counts some or all",
        )
    return Type(Kind.DECIMAL, precision=precision, scale=scale)


def _below(field: ArrowField, kind: Kind, path: _Path) -> tuple[_Path, tuple[ArrowField, ...]]:
    """The children that are types of their own, and how paths name them."""
    children = field.children
    if kind is Kind.STRUCT:
        return tuple(child.name for child in children), children
    if kind is Kind.LIST:
        _check_count(field, 1, path)
        return ("_elem",), children
    if kind is Kind.MAP:
        _check_count(field, 1, path)
        entries = children[0]
        if entries.format != "+s":
            _fail(path, f"is a map whose entries are no structs but have the format {entries.format!r:.100}")
        _check_count(entries, 2, path)
        return ("_key", "_value"), entries.children
    if kind is Kind.UNION:
        codes = field.format.split(":", 1)[1].split(",")
        if not all(re.fullmatch(r"[0-9]{1,3}", code) and int(code) < 128 for code in codes):
            _fail(path, f"is a union of the malformed Arrow format {field.format!r:.100}")
        # ORC's tags are positions; which codes stood for them is not kept.
        _check_count(field, len(set(codes)), path)
        return tuple(f"_union_{tag}" for tag in range(len(children))), children
    _check_count(field, 0, path)
    return (), ()


def _with_metadata(plain: Type, metadata: tuple[tuple[bytes, bytes], ...], path: _Path) -> Type:
    """The type as the metadata makes it more exact, with the rest of the metadata as its attributes."""
    if not metadata:
        return plain
    attributes = []
    declared: str | None = None
    for raw_key, raw_value in metadata:
        try:
            key, value = raw_key.decode(), raw_value.decode()
        except UnicodeDecodeError:
            continue  # attributes are text
        if key == _ORC_TYPE and declared is None:
            declared = value
        elif not key.startswith(_ARROW_KEYS):
            attributes.append((key, value))
    if declared is not None:
        exact = _declared(declared)
        if exact is None:
            _fail(
                path, f"has the metadata {_ORC_TYPE}={declared!r:.100}, which is no char, varchar or geometry"
            )
        if plain.kind not in _HOLDERS[exact.kind]:
            _fail(
                path,
                f"has the metadata {_ORC_TYPE}={declared!r:.100}, but its Arrow type is one of {plain}; "
                f"take {_ORC_TYPE} out of the field's metadata, or cast the field",
            )
        plain = exact
    return replace(plain, attributes=tuple(attributes))


def _declared(text: str) -> Type | None:
    """A type out of `orc.type`. Lengths may be missing, and names of reference systems hold anything."""
    if found := _CHARACTERS.fullmatch(text):
        length = None if found[2] is None else int(found[2])
        if length is not None and not 1 <= length < 1 << 32:
            return None
        return Type(Kind.CHAR if found[1] == "char" else Kind.VARCHAR, max_length=length)
    if found := _GEOMETRY.fullmatch(text):
        return Type(Kind.GEOMETRY, crs=found[1])
    if found := _GEOGRAPHY.fullmatch(text):
        return Type(Kind.GEOGRAPHY, crs=found[1], algorithm=found[2])
    return None


def _check_count(field: ArrowField, count: int, path: _Path) -> None:
    if len(field.children) != count:
        _fail(
            path,
            f"has the Arrow format {field.format!r:.100} and {len(field.children)} children, not {count}",
        )


def _fail(path: _Path, problem: str) -> NoReturn:
    subject = f"the column {'.'.join(path)!r}" if path else "the schema"
    raise SchemaMismatch(f"{subject} {problem}")
