"""Values in the names of folders, as `country=DE/day=2024-05-01`: what they are, and of which types.

Knows Spark's rules of partition inference (`PartitioningUtils.scala`): integers, decimals, doubles, times,
dates and texts; two folders with other columns are an error. Must not know stores, nor how rows are read.
"""

from __future__ import annotations

import ctypes
import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyspark
from pyspark.sql import types as spark

from orcstream._credentials import strip_credentials
from orcstream.errors import SchemaMismatch, UsageError
from orcstream.plan.acid.names import parse_folder

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_DOUBLE = re.compile(
    r"\s*[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)\s*", re.ASCII
)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_CLOCK = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?", re.ASCII)
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?", re.ASCII)

# Earlier versions take such folders for texts.
_HAS_TIMES_OF_DAY: Final = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 3)

Value = int | float | str | bool | Decimal | datetime.date | datetime.datetime | datetime.time | None


@dataclass(frozen=True, slots=True)
class PartitionPath:
    """The columns that the folders of a file name, in their order, and their texts; None is a null.

    `base` are the folders above them.
    """

    base: str
    names: tuple[str, ...] = ()
    texts: tuple[str | None, ...] = ()


def parse_folders(root: str, folders: Sequence[str]) -> PartitionPath:
    """Of the names of folders from a root down to a file.

    Folders below the last that names a value mean nothing; one between two that do ends the table there.
    """
    found: list[tuple[str, str | None]] = []
    at = len(folders)
    while at:
        folder = folders[at - 1]
        if folder.startswith("="):
            raise UsageError(f"the folder {folder!r} names a value and no column")
        if "=" not in folder and found:
            break
        if "=" in folder:
            found.append(parse_folder(folder, errors="replace"))
        at -= 1
    if not found:
        return PartitionPath(root)
    found.reverse()
    names, texts = zip(*found, strict=True)
    return PartitionPath("/".join([root.rstrip("/"), *folders[:at]]), names, texts)


def common_columns(paths: Iterable[tuple[str, PartitionPath]], *, case_sensitive: bool) -> tuple[str, ...]:
    """The columns that all folders name; `paths` are folders, to be shown, and what they name.

    Raises `SchemaMismatch` that names two folders where they differ.
    """
    first: tuple[str, PartitionPath] | None = None
    unnamed: list[str] = []
    for shown, path in paths:
        if not path.names:
            unnamed.append(shown)
            continue
        if first is None:
            first = (shown, path)
            continue
        if path.base != first[1].base or _folded(path, case_sensitive) != _folded(first[1], case_sensitive):
            one, other = strip_credentials(first[0]), strip_credentials(shown)
            raise SchemaMismatch(
                f"the folders {one!r} and {other!r} are partitions of different tables: the columns are "
                f"{', '.join(first[1].names)} and {', '.join(path.names)}; load them apart, or give the "
                "folder above both by option('basePath', ...)"
            )
    if first is None:
        return ()
    for shown in unnamed:
        if shown != first[1].base:  # Spark leaves out files that are directly in the table's folder
            one, other = strip_credentials(first[0]), strip_credentials(shown)
            raise SchemaMismatch(
                f"the folder {one!r} names the columns {', '.join(first[1].names)}, and {other!r} none; "
                "load them apart"
            )
    return first[1].names


def _folded(path: PartitionPath, case_sensitive: bool) -> tuple[str, ...]:
    return path.names if case_sensitive else tuple(name.lower() for name in path.names)


# --- types -----------------------------------------------------------------------------------------


def inferred_type(texts: Iterable[str | None]) -> spark.DataType:
    """The narrowest type that takes all these texts."""
    found: spark.DataType = spark.NullType()
    for text in texts:
        found = wider(found, _type_of(text))
    return spark.StringType() if isinstance(found, spark.NullType) else found


def _type_of(text: str | None) -> spark.DataType:
    if text is None:
        return spark.NullType()
    if _INTEGER.fullmatch(text):
        number = int(text)
        if -(1 << 31) <= number < 1 << 31:
            return spark.IntegerType()
        if -(1 << 63) <= number < 1 << 63:
            return spark.LongType()
    if _DECIMAL.fullmatch(text):
        exact = Decimal(text)
        _, digits, exponent = exact.as_tuple()
        if isinstance(exponent, int) and 0 <= exponent < 1000 and len(digits) + exponent <= 38:
            return spark.DecimalType(len(str(abs(int(exact)))), 0)
    if _DOUBLE.fullmatch(text):
        return spark.DoubleType()
    if _TIME.fullmatch(text) and _is_time(text):
        return spark.TimestampType()
    if _DAY.fullmatch(text) and _is_time(text):
        return spark.DateType()
    if _HAS_TIMES_OF_DAY and _CLOCK.fullmatch(text):
        return spark.TimeType(6)
    return spark.StringType()


def _is_time(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


_DIGITS: Final[dict[type[spark.DataType], int]] = {spark.IntegerType: 10, spark.LongType: 20}


def wider(one: spark.DataType, other: spark.DataType) -> spark.DataType:
    """The type that takes the values of both, a text where no other does."""
    if one == other or isinstance(other, spark.NullType):
        return one
    if isinstance(one, spark.NullType):
        return other
    kinds = {type(one), type(other)}
    if kinds == {spark.IntegerType, spark.LongType}:
        return spark.LongType()
    if kinds == {spark.IntegerType, spark.DoubleType}:
        return spark.DoubleType()
    if kinds == {spark.DateType, spark.TimestampType}:
        return spark.TimestampType()
    if kinds <= {spark.IntegerType, spark.LongType, spark.DecimalType}:
        return spark.DecimalType(max(_digits(one), _digits(other)), 0)
    return spark.StringType()


def _digits(type_: spark.DataType) -> int:
    return type_.precision if isinstance(type_, spark.DecimalType) else _DIGITS[type(type_)]


def typed_value(text: str | None, type_: spark.DataType, timezone: str, shown: str) -> Value:
    """A folder's text as a value of a type; times are of the zone named.

    Raises `SchemaMismatch` that names the folder, `shown`, where it is none.
    """
    if text is None:
        return None
    zone = zone_named(timezone) if isinstance(type_, spark.TimestampType) else None
    try:
        return _parsed(text, type_, zone)
    except (ValueError, ArithmeticError):
        where = strip_credentials(shown)
        raise SchemaMismatch(f"{text!r} in {where!r} is no {type_.simpleString()}") from None


def zone_named(name: str) -> ZoneInfo:
    """The zone of times in folders and options. Raises `UsageError` where the tz database has none."""
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        raise UsageError(
            f"times in folders and options are of the zone that option timezone names, and {name!r} is no "
            "name of the tz database, such as Europe/Berlin"
        ) from None


def _parsed(text: str, type_: spark.DataType, zone: ZoneInfo | None) -> Value:
    if isinstance(type_, spark.StringType | spark.CharType | spark.VarcharType):
        text.encode()  # a name that is no UTF-8 is no text
        return text
    if isinstance(type_, spark.BooleanType):
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if isinstance(type_, spark.NumericType):
        return _number(text, type_)
    if isinstance(type_, spark.DateType):
        return datetime.date.fromisoformat(text[:10])
    if isinstance(type_, spark.TimeType):
        return datetime.time.fromisoformat(text)
    if isinstance(type_, spark.TimestampNTZType):
        return datetime.datetime.fromisoformat(text)
    if isinstance(type_, spark.TimestampType):
        return _instant(datetime.datetime.fromisoformat(text), zone)
    raise SchemaMismatch(f"a folder cannot name a value of {type_.simpleString()}")


def _number(text: str, type_: spark.DataType) -> Value:
    if "_" in text:  # which Python takes between digits
        raise ValueError(text)
    if isinstance(type_, spark.IntegralType):
        number = int(text)
        bits = {spark.ByteType: 8, spark.ShortType: 16, spark.IntegerType: 32}.get(type(type_), 64)
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise ValueError(text)
        return number
    if isinstance(type_, spark.DecimalType):
        exact = Decimal(text)
        if not exact.is_finite():
            raise ValueError(text)
        unit, context = Decimal(1).scaleb(-type_.scale), Context(prec=type_.precision)
        return exact.quantize(unit, ROUND_HALF_UP, context)
    real = float(text.strip().rstrip("fFdD") if text.strip()[-1:] in "fFdD" else text)
    return real if isinstance(type_, spark.DoubleType) else ctypes.c_float(real).value


def _instant(time: datetime.datetime, zone: ZoneInfo | None) -> datetime.datetime:
    known: Any = time if time.tzinfo is not None else time.replace(tzinfo=zone)
    return known.astimezone(datetime.UTC)  # type: ignore[no-any-return]
