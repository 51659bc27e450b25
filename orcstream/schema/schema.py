"""Schemas: the type tree of a file, selection of its columns by name, and what they note of encryption.

Must not know how types are printed and parsed (`schema.types`), nor protobuf, Arrow or any byte of a file.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import NoReturn, cast

from orcstream._printable import listed
from orcstream.errors import ColumnNotFound, SchemaMismatch, Unsupported, UsageError
from orcstream.schema.types import MAX_DEPTH, FileColumn, Kind, Type, nodes_of, parse_type, steps_of


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Schema:
    """The type tree `root` of a file or of a table to be written. Immutable, hashable and pickle-able.

    As a collection it holds its top-level fields: iteration gives `names`, `len` counts them, and
    `schema["a.b"]` is the `Type` at a path (dotted, or a tuple where names hold dots).
    """

    root: Type
    types: tuple[Type, ...] = field(init=False)
    # Where the names of each type stand, once one of them was looked up: wide files are asked for every name.
    _places: _Places = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        # By column id. (A projected tree has gaps; a schema is never projected.)
        types = tuple(nodes_of(self.root))
        if [node.column_id for node in types] != list(range(len(types))):
            raise UsageError("the column ids of a schema must count its types in pre-order, from 0")
        try:  # files and Arrow have UTF-8
            "".join(text for node in types for text in (*node.field_names, node.crs or "")).encode()
        except UnicodeEncodeError:
            raise SchemaMismatch("a name holds half of a surrogate pair") from None
        object.__setattr__(self, "types", types)

    @staticmethod
    def parse(text: str) -> Schema:
        """The schema that `text` describes, such as ``struct<a:int,`odd name`:array<string>>``."""
        return numbered(parse_type(text))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the top-level fields; empty where the root is no struct."""
        return self.root.field_names

    def walk(self) -> Iterator[tuple[tuple[str, ...], Type]]:
        """Every type with its path, in the order of column ids; the root's path is empty."""
        return self.root.walk()

    @property
    def column_count(self) -> int:
        """How many column ids there are: one for each type of the tree, the root's included."""
        return len(self.types)

    def select(self, columns: Sequence[str | tuple[str, ...]] | None, case_sensitive: bool = True) -> Type:
        """The root with only the `columns` asked for, in the order asked; None asks for everything.

        Without `case_sensitive`, names may be spelled otherwise. Raises `ColumnNotFound`.

        A name that holds dots and exists is found as it stands; a struct's fields are reached by
        dots, list elements by ``_elem``, a map's sides by ``_key`` and ``_value`` (a map keeps both), a
        union's children by ``_union_0`` and so on (a union is always read whole).
        """
        if columns is None:
            return self.root
        if isinstance(columns, str):
            raise UsageError(f"columns must be a sequence of names, not one text; write [{columns!r}]")
        columns = list(columns)
        if self.root.kind is not Kind.STRUCT:
            raise UsageError(
                f"the file's root is a {self.root} and not a struct, so it has no columns to choose from; "
                "leave columns out (None)"
            )
        picked: _Picked = {}
        places: _Places = {}
        for column in columns:
            _pick(picked, _find(self.root, _parts(column), case_sensitive, places))
        return _project(self.root, picked)

    def __getitem__(self, path: str | tuple[str, ...]) -> Type:
        node = self.root
        for index in _find(node, _parts(path), True, self._places):
            node = node.children[index]
        return node

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str | tuple):
            return False
        try:
            self[path]
        except UsageError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return self.root == other.root if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.root)

    def __reduce__(self) -> tuple[object, ...]:
        return (Schema, (self.root,))

    def __str__(self) -> str:
        return str(self.root)

    def __repr__(self) -> str:
        return f"Schema.parse({str(self)!r})"


def numbered(root: Type, *, attributes: bool = True) -> Schema:
    """The schema of types with any column ids; without `attributes`, that of their text alone.

    Raises `Unsupported` for a tree that nests too deep.
    """
    next_id = 0

    def count(node: Type, depth: int) -> Type:
        nonlocal next_id
        if depth > MAX_DEPTH:
            raise Unsupported(f"the schema nests deeper than {MAX_DEPTH} levels", reason="schema_too_deep")
        own = FileColumn(next_id)
        next_id += 1
        counted: list[Type] = []
        for child in node.children:
            # Most nodes, of thousands, are leaves that have their place already.
            is_leaf = not child.children and (attributes or not child.attributes) and depth < MAX_DEPTH
            if is_leaf and child.column_id == child.last_column_id == next_id:
                next_id += 1
                counted.append(child)
            else:
                counted.append(count(child, depth + 1))
        children = tuple(counted)
        last = children[-1].last_column_id if children else own
        kept = node.attributes if attributes else ()
        is_same = (own, last, kept) == (node.column_id, node.last_column_id, node.attributes)
        if is_same and all(map(operator.is_, children, node.children)):
            return node  # as are all, where everything is read
        return replace(node, children=children, attributes=kept, column_id=own, last_column_id=last)

    return Schema(count(root, 1))


# --- selection -------------------------------------------------------------------------------------

# Which children of a node are asked for, in order: None means the child whole.
_Picked = dict[int, "_Picked | None"]
# Where the children of some nodes are by their names, for who looks for thousands of them.
_Places = dict[int, dict[str, list[int]]]


def find_column(root: Type, column: str | tuple[str, ...], *, case_sensitive: bool = True) -> tuple[int, ...]:
    """The child indices that lead from `root` to a column, named as `Schema.select` takes names."""
    return tuple(_find(root, _parts(column), case_sensitive))


def _parts(column: object) -> str | tuple[str, ...]:
    if isinstance(column, str):
        return column
    if isinstance(column, tuple) and column and all(isinstance(part, str) for part in column):
        return column
    raise UsageError(f"a column is a name, or a tuple of names from the top down, not {column!r}")


def _find(
    root: Type, path: str | tuple[str, ...], case_sensitive: bool, places: _Places | None = None
) -> list[int]:
    """The child indices that lead from the root to the path's type."""
    if isinstance(path, str):
        found = _find_dotted(root, path, case_sensitive, places)
        if found is None:
            _not_found(root, path, case_sensitive)
        return found
    indices: list[int] = []
    node = root
    for depth, step in enumerate(path):
        index = _child(node, step, case_sensitive, places)
        if index is None:
            raise ColumnNotFound(
                f"no column {path!r}: {_about(node, path[:depth])}{_suggestion(step, steps_of(node))}"
            )
        indices.append(index)
        node = node.children[index]
    return indices


def _find_dotted(node: Type, text: str, case_sensitive: bool, places: _Places | None) -> list[int] | None:
    """A dot may part two names or belong to one: the longest name that exists is tried first."""
    end = len(text)
    while end >= 0:
        index = _child(node, text[:end], case_sensitive, places)
        if index is not None:
            if end == len(text):
                return [index]
            rest = _find_dotted(node.children[index], text[end + 1 :], case_sensitive, places)
            if rest is not None:
                return [index, *rest]
        end = text.rfind(".", 0, end)
    return None


def _child(node: Type, name: str, case_sensitive: bool, places: _Places | None = None) -> int | None:
    steps = steps_of(node)
    if places is None:
        matches = [index for index, step in enumerate(steps) if step == name]
    else:
        if id(node) not in places:
            known: dict[str, list[int]] = {}
            for index, step in enumerate(steps):
                known.setdefault(step, []).append(index)
            places[id(node)] = known  # whole, since threads share a schema
        matches = places[id(node)].get(name, [])
    if not matches and not case_sensitive:
        folded = name.casefold()
        matches = [index for index, step in enumerate(steps) if step.casefold() == folded]
    if len(matches) > 1:
        raise UsageError(
            f"the name {name!r} is ambiguous: {len(matches)} fields match "
            f"({listed([steps[index] for index in matches])})"
        )
    return matches[0] if matches else None


def _not_found(root: Type, text: str, case_sensitive: bool) -> NoReturn:
    """Says which part of a dotted path is unknown: walks as far down as names match."""
    node, start = root, 0
    while True:
        for end in (at for at in range(len(text) - 1, start, -1) if text[at] == "."):
            index = _child(node, text[start:end], case_sensitive)
            if index is not None:
                node, start = node.children[index], end + 1
                break
        else:
            above = (text[: start - 1],) if start else ()
            raise ColumnNotFound(
                f"no column {text!r}: {_about(node, above)}{_suggestion(text[start:], steps_of(node))}"
            )


def _about(node: Type, above: tuple[str, ...]) -> str:
    owner = f"{'.'.join(above)!r}" if above else "the file"
    steps = steps_of(node)
    if not steps:
        return (
            f"{owner} is a {node} and has no fields" if node.kind is not Kind.STRUCT else f"{owner} is empty"
        )
    shown = ", ".join(repr(step) for step in steps[:8]) + (", ..." if len(steps) > 8 else "")
    return f"{owner} has {shown}"


def _suggestion(name: str, steps: Sequence[str]) -> str:
    close = get_close_matches(name, steps[:1000], 3)
    folded = [step for step in steps if step.casefold() == name.casefold() and step not in close]
    options = " or ".join(repr(option) for option in (*folded, *close)[:3])
    return f"; did you mean {options}?" if options else ""


def _pick(picked: _Picked, indices: Sequence[int]) -> None:
    """Adds a path to what is picked; the whole of something swallows its parts."""
    for index in indices[:-1]:
        if index in picked and picked[index] is None:
            return
        picked = cast("_Picked", picked.setdefault(index, {}))
    picked[indices[-1]] = None


def _project(node: Type, picked: _Picked | None) -> Type:
    if picked is None or node.kind is Kind.UNION:
        return node
    if node.kind is Kind.STRUCT:
        children = tuple(_project(node.children[index], below) for index, below in picked.items())
        return replace(node, children=children, field_names=tuple(node.field_names[i] for i in picked))
    return replace(
        node,
        children=tuple(_project(child, picked.get(index)) for index, child in enumerate(node.children)),
    )


# --- attributes in which ORC Java notes how columns are encrypted, beside what the footer says -----
#     They decide nothing about how a file is read.

_KEY, _MASK = "encrypt", "mask"
_Attributes = tuple[tuple[str, str], ...]


def with_encryption(schema: Schema, encrypted: Mapping[FileColumn, tuple[str, str]]) -> Schema:
    """With the key and the mask (as text) of each encrypted column, in place of what it says now.

    ORC Java merges files by these.
    """

    def noted(type_: Type) -> _Attributes:
        found = encrypted.get(type_.column_id)
        own = () if found is None else ((_KEY, found[0]), (_MASK, found[1]))
        return (*_other(type_), *own)

    return _changed(schema, noted)


def without_encryption(schema: Schema) -> Schema:
    """As of a file that encrypts nothing."""
    return _changed(schema, _other)


def renamed_keys(schema: Schema, rename: Mapping[str, str]) -> Schema:
    """With new names of keys."""
    return _changed(
        schema,
        lambda type_: tuple(
            (name, rename.get(value, value) if name == _KEY else value) for name, value in type_.attributes
        ),
    )


def _other(type_: Type) -> _Attributes:
    return tuple(pair for pair in type_.attributes if pair[0] not in (_KEY, _MASK))


def _changed(schema: Schema, attributes_of: Callable[[Type], _Attributes]) -> Schema:
    if all(attributes_of(type_) == type_.attributes for type_ in schema.types):
        return schema
    done: list[Type] = []  # the types right of the one in hand, those nearest to it last
    for type_ in reversed(schema.types):
        children = tuple(done.pop() for _ in type_.children)
        done.append(replace(type_, children=children, attributes=attributes_of(type_)))
    return Schema(done[0])
