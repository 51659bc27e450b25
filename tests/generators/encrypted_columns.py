"""Choices of what to encrypt with which key and mask, and how Java and people write them down.

Knows type trees. Columns are their ids in pre-order; one that is encrypted is the root of all below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from tests.reference import java_orc
from tests.reference.java_orc import Key
from tests.reference.types import T, struct

PII = Key("pii", bytes(range(100, 116)))
TOP = Key("top", bytes(range(32)))
KEYS = (PII, TOP)
MASKS = ("nullify", "redact", "sha256")
SUBSETS: tuple[tuple[Key, ...], ...] = ((), (PII,), (TOP,), KEYS)


@dataclass(frozen=True)
class Root:
    """An encrypted column: `path` as ORC's notation has it, `steps` as ours."""

    column: int
    path: str
    steps: tuple[str, ...]
    key: Key
    mask: str

    @property
    def name(self) -> str:
        return ".".join(self.steps)


@dataclass(frozen=True)
class Place:
    """A column and where it is; `in_union`: it is a child of one."""

    column: int
    type_: T
    path: str
    steps: tuple[str, ...]
    in_union: bool = False

    @property
    def last(self) -> int:
        return self.column + len(self.type_.flatten()) - 1


def places(type_: T) -> Iterator[Place]:
    """All columns, parents first."""
    return _places(Place(0, type_, "", ()))


def _places(parent: Place) -> Iterator[Place]:
    yield parent
    column = parent.column + 1
    for index, child in enumerate(parent.type_.children):
        theirs, ours = _step(parent.type_, index)
        path = f"{parent.path}.{theirs}" if parent.column else theirs
        in_union = parent.type_.kind == "uniontype"
        yield from _places(Place(column, child, path, (*parent.steps, ours), in_union))
        column += len(child.flatten())


def _step(type_: T, index: int) -> tuple[str, str]:
    if type_.kind == "struct":
        quoted = type_.names[index].replace("`", "``")
        return f"`{quoted}`", type_.names[index]
    if type_.kind == "uniontype":
        return str(index), f"_union_{index}"
    word = "_elem" if type_.kind == "array" else ("_key", "_value")[index]
    return word, word


def named(type_: T, choices: Sequence[tuple[str, Key, str]]) -> list[Root]:
    """Roots by name, each with its key and mask."""
    by_name = {".".join(place.steps): place for place in places(type_)}
    found = ((by_name[name], key, mask) for name, key, mask in choices)
    return [Root(place.column, place.path, place.steps, key, mask) for place, key, mask in found]


# A column of each kind, most of them encrypted, in every place that Java takes.
RICH = struct(
    id="bigint",
    ssn="string",
    word="string",
    n="int",
    price="decimal(12,2)",
    big="decimal(30,4)",
    f="double",
    at="timestamp",
    day="date",
    flag="boolean",
    raw="binary",
    v="varchar(12)",
    s="struct<a:string,b:bigint,c:struct<d:smallint>>",
    l="array<int>",
    m="map<string,bigint>",
    k="map<string,array<string>>",
    u="uniontype<int,string>",
    z="string",
)
RICH_ROOTS = named(
    RICH,
    [
        ("ssn", PII, "redact"),
        ("word", TOP, "sha256"),
        ("n", PII, "nullify"),
        ("price", TOP, "redact"),
        ("big", PII, "sha256"),
        ("f", TOP, "redact"),
        ("at", PII, "redact"),
        ("day", TOP, "redact"),
        ("flag", PII, "redact"),
        ("raw", PII, "nullify"),
        ("v", TOP, "sha256"),
        ("s.a", PII, "sha256"),
        ("s.c", TOP, "nullify"),
        ("l", PII, "redact"),
        ("m", TOP, "sha256"),
        ("k._value", PII, "nullify"),
        ("u", PII, "nullify"),
    ],
)


def name_of(keys: object) -> str:
    """For the names of tests."""
    return "+".join(key.name for key in keys) or "none" if isinstance(keys, tuple) else str(keys)


def notation(roots: Sequence[Root]) -> tuple[str, str]:
    """What ORC's options for keys and for masks say."""
    encrypt = ";".join(f"{root.key.name}:{root.path}" for root in roots)
    return encrypt, ";".join(f"{root.mask}:{root.path}" for root in roots)


def write(
    path: Path,
    type_: T,
    rows: Sequence[object],
    roots: Sequence[Root],
    *,
    keys: Sequence[Key] = KEYS,
    options: Mapping[str, object] | None = None,
    seed: int | None = None,
) -> None:
    """Have Java write it."""
    encrypt, masks = notation(roots)
    java_orc.write(path, type_, rows, options=options, keys=keys, encrypt=encrypt, masks=masks, seed=seed)


def masks_of(type_: T) -> tuple[str, ...]:
    """Those whose output Java writes down properly: one that looks into structs forgets which are null."""
    return ("nullify",) if "struct" in type_.walk_kinds() else MASKS


@st.composite
def roots(draw: st.DrawFn, type_: T, keys: Sequence[Key] = KEYS) -> list[Root]:
    """Some columns, none of them within another, at least one; Java cannot encrypt one child of a union."""
    columns = [place for place in places(type_) if place.column and not place.in_union]
    taken: list[Place] = []
    for place in draw(st.permutations(columns)):
        if all(place.last < other.column or other.last < place.column for other in taken):
            taken.append(place)
        if len(taken) >= 3:
            break
    count = draw(st.integers(1, len(taken)))
    return [
        Root(
            place.column,
            place.path,
            place.steps,
            draw(st.sampled_from(keys)),
            draw(st.sampled_from(masks_of(place.type_))),
        )
        for place in taken[:count]
    ]
