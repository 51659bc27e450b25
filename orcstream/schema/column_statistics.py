"""Statistics of a column over a file, a stripe or a row group, as frozen values.

Knows what each kind of column records, how two records become one, and which writers' numbers and bloom
filters may be believed. Must not know protobuf (`codec.metadata` fills these values from foreign bytes),
how values are counted (`codec.encode.statistics`), nor what they prove about a predicate (`plan.prune`).
Contract: every value that is not None is of the type the documentation names, decimals are finite, and a
bound that could not be read is None, which proves nothing. Specification: "Column Statistics".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import Any, Literal

from orcstream.schema.types import INT64, MAX_PRECISION

# Longer texts are recorded as bounds that are cut (ORC-203).
MAX_TEXT_BYTES = 1024

StatisticsKind = Literal["integer", "double", "string", "boolean", "decimal", "date", "timestamp", "binary"]


@dataclass(frozen=True, slots=True)
class BoundingBox:
    """The extent of geospatial values; None where a dimension does not occur."""

    xmin: float | None = None
    xmax: float | None = None
    ymin: float | None = None
    ymax: float | None = None
    zmin: float | None = None
    zmax: float | None = None
    mmin: float | None = None
    mmax: float | None = None


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What a writer recorded about some values of one column; None means "not recorded".

    `value_count` counts values that are not null; `has_null` is None in old files, which says nothing
    either way. `bytes_on_disk` counts data streams only. `kind` says how to read the rest, and is None for
    columns that have counts only:

    ========== ==================================================== ==============================
    kind       `minimum`, `maximum`                                 `sum`
    ========== ==================================================== ==============================
    integer    int                                                  int (None when it overflowed)
    double     float, perhaps NaN                                   float, perhaps NaN
    string     str; None when longer than 1024 bytes, then          total bytes
               `lower_bound` <= all values <= `upper_bound`
    boolean    none                                                 count of true
    decimal    Decimal                                              Decimal
    date       int, days since 1970-01-01                           none
    timestamp  int, nanoseconds since 1970-01-01 00:00:00 UTC       none
    binary     none                                                 total bytes
    ========== ==================================================== ==============================

    `local_minimum_ms` and `local_maximum_ms` are what timestamps had before ORC-135: milliseconds of a wall
    clock in a zone that is not recorded.
    """

    value_count: int | None = None
    has_null: bool | None = None
    bytes_on_disk: int | None = None
    kind: StatisticsKind | None = None
    minimum: int | float | str | Decimal | None = None
    maximum: int | float | str | Decimal | None = None
    sum: int | float | Decimal | None = None
    lower_bound: str | None = None
    upper_bound: str | None = None
    local_minimum_ms: int | None = None
    local_maximum_ms: int | None = None
    bounding_box: BoundingBox | None = None
    geospatial_types: tuple[int, ...] = ()
    min_children: int | None = None
    max_children: int | None = None
    total_children: int | None = None


ALL_NULL = ColumnStatistics(value_count=0, has_null=True)
"""What holds for a column that a file does not have: known by identity, believed whoever wrote the file."""


# --- merging ---------------------------------------------------------------------------------------

_EXACT = Context(prec=200)


def merge(a: ColumnStatistics, b: ColumnStatistics) -> ColumnStatistics:
    """What holds for the values of both together: row groups become a stripe, stripes a file.

    What one of them does not know the result does not know, unless that one has no values at all. Sums that
    fit no more are left out. Raises ValueError where the two are of columns of different types.
    """
    common: dict[str, Any] = {
        "value_count": _both(a.value_count, b.value_count, _add),
        "has_null": _either(a.has_null, b.has_null),
        "bytes_on_disk": _both(a.bytes_on_disk, b.bytes_on_disk, _add),
    }
    if a.kind != b.kind and a.kind is not None and b.kind is not None:
        raise ValueError(f"statistics of kind {a.kind} and of kind {b.kind} are of different columns")
    for one, other in ((a, b), (b, a)):
        if one.value_count == 0 and not (other.value_count == 0 and other.kind is None):
            return replace(other, **common)
    if a.kind == b.kind and a.kind is not None:
        common |= _merged(a.kind, a, b)
    return ColumnStatistics(
        **common,
        min_children=_both(a.min_children, b.min_children, min),
        max_children=_both(a.max_children, b.max_children, max),
        total_children=_both(_total_children(a), _total_children(b), _add),
        bounding_box=_boxes(a.bounding_box, b.bounding_box),
        geospatial_types=_geospatial_types(a.geospatial_types, b.geospatial_types),
    )


def _both(one: Any, other: Any, function: Callable[[Any, Any], Any]) -> Any:
    return None if one is None or other is None else function(one, other)


def _add(one: Any, other: Any) -> Any:
    return one + other


def _either(one: bool | None, other: bool | None) -> bool | None:
    if one or other:
        return True
    return None if one is None or other is None else False


def _merged(kind: StatisticsKind, a: ColumnStatistics, b: ColumnStatistics) -> dict[str, Any]:
    """The arguments of `ColumnStatistics` that depend on the kind."""
    if kind == "string":
        lower = _text_bound(a, b, "minimum", "lower_bound", min)
        upper = _text_bound(a, b, "maximum", "upper_bound", max)
        return {"kind": kind, **lower, **upper, "sum": _both(a.sum, b.sum, _add)}
    least: Callable[[Any, Any], Any] = min
    largest: Callable[[Any, Any], Any] = max
    if kind == "double":
        least, largest = _least, _largest
    add: Callable[[Any, Any], Any] = _add
    if kind in ("integer", "decimal"):
        add = _add_integers if kind == "integer" else _add_decimals
    return {
        "kind": kind,
        "minimum": _both(a.minimum, b.minimum, least),
        "maximum": _both(a.maximum, b.maximum, largest),
        "sum": _both(a.sum, b.sum, add),
        "local_minimum_ms": _both(a.local_minimum_ms, b.local_minimum_ms, min),
        "local_maximum_ms": _both(a.local_maximum_ms, b.local_maximum_ms, max),
    }


def _least(one: float, other: float) -> float:
    """Passes over NaN; a zero is negative, as in a record of single values."""
    found = other if math.isnan(one) else one if math.isnan(other) else min(one, other)
    return -0.0 if found == 0 else found


def _largest(one: float, other: float) -> float:
    return -_least(-one, -other)


def _add_integers(one: int, other: int) -> int | None:
    return one + other if one + other in INT64 else None


def _add_decimals(one: Decimal, other: Decimal) -> Decimal | None:
    total = _EXACT.add(one, other)
    return total if len(total.as_tuple().digits) <= MAX_PRECISION else None


def _text_bound(
    a: ColumnStatistics, b: ColumnStatistics, whole: str, cut: str, extreme: Callable[[list[str]], str]
) -> dict[str, str]:
    """A bound of texts: named `whole` where it occurs among the values, as far as can be told, or `cut`."""
    wholes = [text for text in (getattr(a, whole), getattr(b, whole)) if isinstance(text, str)]
    cuts = [getattr(one, cut) for one in (a, b) if getattr(one, whole) is None]
    found = [*wholes, *(text for text in cuts if text is not None)]
    if len(found) < 2:
        return {}
    text = extreme(found)
    # Of equals the whole one: all that a bound was cut from is beyond it.
    return {whole if text in wholes else cut: text}


def _total_children(statistics: ColumnStatistics) -> int | None:
    # ORC Java leaves a total of 0 out.
    return 0 if statistics.max_children == 0 else statistics.total_children


def _boxes(one: BoundingBox | None, other: BoundingBox | None) -> BoundingBox | None:
    if one is None or other is None:
        return None
    bounds = {}
    for name in BoundingBox.__slots__:
        found = [bound for bound in (getattr(one, name), getattr(other, name)) if bound is not None]
        bounds[name] = (min if name.endswith("min") else max)(found, default=None)
    return BoundingBox(**bounds)


def _geospatial_types(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    # An empty list says that the types are not known.
    return tuple(sorted({*one, *other})) if one and other else ()


# --- whom to believe -------------------------------------------------------------------------------

_HOUR_NS = 3600 * 10**9
# Since 1900, no zone's offset from UTC was more than 25.5 hours from the one that it had when 2015 began, the
# moment that stored times count from; the rest is for rules that differ between releases of the tz database.
_ANY_ZONE_NS = 27 * _HOUR_NS
# What separates two releases of the tz database for times after 1900, but for islands that changed sides of
# the date line.
_ONE_ZONE_NS = 3 * _HOUR_NS
_UTC_NAMES = frozenset(
    ("UTC", "GMT", "Etc/UTC", "Etc/GMT", "Etc/UCT", "UCT", "Universal", "Zulu", "Etc/Zulu")
)

_NUMBERS: frozenset[StatisticsKind] = frozenset(("integer", "double"))
_BOUNDED: frozenset[StatisticsKind] = _NUMBERS | {"string", "boolean", "decimal", "date", "timestamp"}
_HASHED: frozenset[StatisticsKind] = _NUMBERS | {"string", "binary", "decimal", "date", "timestamp"}
_NONE: frozenset[StatisticsKind] = frozenset()

_JAVA, _CPP, _PRESTO, _GO, _TRINO, _CUDF = range(6)
_RELEASE = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Trust:
    """What of a file's statistics and bloom filters may be believed.

    `counts`: those of values and of nulls hold. `bounds`: kinds whose bounds hold. `finite_doubles`: those of
    floating point hold without a sum that proves that there was no NaN. `blooms`: kinds whose filters hold
    in streams of kind BLOOM_FILTER_UTF8, `original_blooms` in those of the original BLOOM_FILTER.
    `bloom_encodings` are those that may be read at all; of timestamps encoding 0 never holds (ORC-135).
    `char_blooms`: filters of CHAR are of the texts as stored, or all trimmed, or all padded.
    `byte_blooms`: those of TINYINT are of its values.
    `zone_margin_ns` is how far the wall clock that is delivered may be from the one that statistics of
    TIMESTAMP speak of.
    """

    counts: bool
    bounds: frozenset[StatisticsKind]
    finite_doubles: bool = False
    blooms: frozenset[StatisticsKind] = _NONE
    original_blooms: frozenset[StatisticsKind] = _NONE
    bloom_encodings: frozenset[int] = frozenset((0, 1))
    char_blooms: bool = True
    byte_blooms: bool = True
    zone_margin_ns: int = _ANY_ZONE_NS

    def in_zone(self, zone: str | None) -> Trust:
        """The same for a stripe whose TIMESTAMPs were written, and are read, in this zone.

        `zone` is None where it is not known.
        """
        if zone in _UTC_NAMES:
            margin = 0
        elif zone is None or "/" not in zone or zone.startswith(("Pacific/", "US/Samoa")):
            margin = _ANY_ZONE_NS
        else:
            margin = _ONE_ZONE_NS
        return replace(self, zone_margin_ns=margin)

    def read_elsewhere(self, written: str | None, shift_ns: int) -> Trust:
        """The same for a stripe that was written in one zone and is read in another, or as points in time.

        `written` is None where it is not known. `shift_ns` is how far the reading zone moves what is stored.
        """
        return replace(self, zone_margin_ns=shift_ns + (0 if written in _UTC_NAMES else _ANY_ZONE_NS))

    def believes_bloom(self, kind: StatisticsKind, encoding: int, *, utf8: bool) -> bool:
        """Whether a column's filters may be asked; `utf8` tells BLOOM_FILTER_UTF8 from BLOOM_FILTER."""
        if encoding not in self.bloom_encodings or (kind == "timestamp" and encoding != 1):
            return False
        return kind in (self.blooms if utf8 else self.original_blooms)


def trust_of(
    writer: int, writer_version: int, software_version: str | None, file_version: tuple[int, int]
) -> Trust:
    """The table of writers and their faults, asked with what the postscript and the footer say.

    For all of them: whether a column has nulls is taken from `value_count` and `has_null` together, since
    each alone was wrong somewhere (ORC-415: C++ lost has_null; ORC-2054: Trino leaves it out; HIVE-20604: a
    count of 0 that means "not recorded"). Local timestamps, those from before ORC-135, are never believed.
    """
    if writer == _JAVA:
        trust = _java(writer_version)
    elif writer == _CPP:
        trust = _cpp(software_version)
    elif writer == _TRINO:
        # Leaves the bounds out where a NaN occurs, and never writes a sum. Filters of CHAR are of trimmed
        # text, those of floating point, decimals and timestamps are of its own making.
        trust = Trust(
            counts=True,
            bounds=_BOUNDED,
            finite_doubles=True,
            blooms=frozenset(("integer", "date", "string")),
            char_blooms=False,
        )
    elif writer == _PRESTO:
        trust = Trust(counts=True, bounds=_BOUNDED - {"timestamp"})
    elif writer == _CUDF:
        # Boolean counts were wrong until 23.10 (rapidsai/cudf 13848), nanoseconds of times later (14325).
        trust = Trust(counts=True, bounds=_BOUNDED - {"boolean", "timestamp"})
    else:
        # The Go writer, and those that came later: nobody has looked at what they record.
        trust = Trust(counts=False, bounds=_NONE)
    if file_version == (1, 9999):
        # Java hashes the unscaled number of a decimal there, C++ its text.
        trust = replace(
            trust,
            blooms=trust.blooms - {"decimal"},
            original_blooms=trust.original_blooms - {"decimal"},
        )
    return trust


def _java(version: int) -> Trust:
    # Filters in the original streams: strings were in the writer's charset (ORC-101, right since HIVE-12055),
    # decimals are wrong in all of them, timestamps are of a local clock.
    original: frozenset[StatisticsKind] = _NUMBERS | {"date", "binary"}
    if version >= 3:
        original |= {"string"}
    if version < 1:
        # HIVE-8732: merged bounds of all but numbers are wrong. Before 2023 cuDF called itself this, too.
        bounds = _NUMBERS
    elif version < 6:
        bounds = _BOUNDED - {"timestamp"}  # ORC-135
    elif version == 6:
        bounds = _BOUNDED - {
            "decimal"
        }  # ORC-517: bounds of decimal64 include a 0 that did not occur, or miss values
    else:
        bounds = _BOUNDED
    # Before 1.6.0 texts of CHAR were hashed as they were handed in, neither padded nor cut.
    return Trust(
        counts=True, bounds=bounds, blooms=_HASHED, original_blooms=original, char_blooms=version >= 9
    )


def _cpp(software_version: str | None) -> Trust:
    # ORC-1024: the hash of integers was wrong in 1.6.0 to 1.6.11 and 1.7.0; these wrote no software version
    # or that one. What a number with a suffix stands for is not known.
    release = _RELEASE.fullmatch(software_version or "")
    version = tuple(map(int, release.groups())) if release is not None else (0, 0, 0)
    hashes_well = version >= (1, 6, 12) and version != (1, 7, 0)
    blooms = _HASHED if hashes_well else _NONE
    if version < (1, 7, 0):
        blooms -= {"binary"}  # ORC-773: nothing was added to them
    return Trust(
        counts=True,
        bounds=_BOUNDED,
        blooms=blooms,
        bloom_encodings=frozenset((1,)),
        # Of a CHAR it hashes as many bytes as the padded text has, from where the text lay before padding.
        char_blooms=False,
        # Values of a TINYINT are packed in place before they are hashed: nothing is left of the first ones.
        byte_blooms=False,
    )
