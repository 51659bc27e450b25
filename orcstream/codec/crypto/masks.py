"""What stands in a file instead of encrypted values: masks of vectors, as texts, and as files name them.

Knows the masks by name and takes nested types apart; what "redact" makes of values is in
`codec.crypto.redaction`. Must not know keys, streams or stripes. Contract: a masked vector has the field
and the rows of the one it is made of, and nothing of its values: neither in buffers beyond its rows nor
beneath nulls. Of vectors is expected what encoders expect (`codec.ingest.fitting`). Masks are those of
ORC Java (`org.apache.orc.impl.mask`); docs/masks.md has the differences. Specification: "Column
Encryption".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from orcstream.codec.crypto._mask import digests
from orcstream.codec.crypto.redaction import Leaf, redaction_of
from orcstream.codec.ingest.refusals import too_large
from orcstream.codec.metadata.structure import DataMask
from orcstream.codec.vectors._selection import select_positions
from orcstream.codec.vectors.cells import lengths_of, union_children
from orcstream.codec.vectors.column import (
    Field,
    Vector,
    as_buffer,
    items_of,
    nulls_of,
    nulls_where,
    validity_bits,
    window,
)
from orcstream.codec.vectors.gather import compact
from orcstream.codec.vectors.times import UTC, ZoneRules
from orcstream.encryption import Mask
from orcstream.errors import UsageError
from orcstream.schema.types import FileColumn, Kind, Type

REDACT = "redact"
"""The mask that leaves something of numbers and times."""

_HEXADECIMAL_BYTES = 64
# What the first two parameters of "redact" do when they are not given: upper-case letters, and the year.
_DEFAULTS = ("X", "_")
# Two back quotes stand for one, and are never its end.
_BETWEEN_QUOTES = re.compile(r"`((?:[^`]|``)*+)`")


def mask_of(type_: Type, mask: Mask, zone: ZoneRules = UTC) -> Masking:
    """What a mask makes of vectors of a type.

    `zone` is the one whose clocks the parts of times are taken from: the writer's. Raises UsageError for a
    name that no mask has, and for parameters that mean nothing.
    """
    kinds = {node.kind for _, node in type_.walk()}
    match mask.name:
        case "redact":
            redaction = redaction_of(mask.parameters)
            return Masking({kind: leaf for kind in kinds if (leaf := redaction.leaf(kind, zone))})
        case "nullify" | "sha256" if mask.parameters:
            raise UsageError(f"the mask {mask.name!r} takes no parameters")
        case "nullify":
            return Masking(None)
        case "sha256":
            return Masking({kind: leaf for kind in kinds if (leaf := _DIGESTS.get(kind))})
    raise UsageError(f"there is no mask {mask.name!r:.100}; there are 'nullify', 'redact' and 'sha256'")


def keeps_days(mask: Mask) -> bool:
    """Whether dates stay as they are."""
    return mask.name == REDACT and redaction_of(mask.parameters).keeps_days


def keeps_times(mask: Mask) -> bool:
    """Whether times stay as they are."""
    return mask.name == REDACT and redaction_of(mask.parameters).keeps_times


def data_mask(mask: Mask, columns: Iterable[FileColumn]) -> DataMask:
    """What a file says of the mask of some columns: name and parameters as they were given, as in Java."""
    return DataMask(mask.name, mask.parameters, tuple(columns))


# --- texts -----------------------------------------------------------------------------------------


def parse_mask(mask: str | Mask) -> Mask:
    """The mask of a text in the form of ORC's option ``orc.mask``: a name, and parameters after commas.

    Each is of letters, digits and ``_``, or anything between back quotes, where two of them stand for one:
    ``redact,Xx9`` or ``redact,`X#9`,`2000 _ 1`,`0:2,-1:-1```. A `Mask` is answered as it is. Raises
    UsageError for text of another form; whether the mask exists is for `mask_of` to say.
    """
    if isinstance(mask, Mask):
        return mask
    names, at = [], 0
    while True:
        name, at = _name(mask, at)
        names.append(name)
        if at == len(mask):
            return Mask(names[0], tuple(names[1:]))
        if mask[at] != ",":
            raise UsageError(
                f"no mask: {mask!r:.200}, at character {at}; parameters follow a comma, in back quotes where "
                "they have other characters than letters, digits and '_'"
            )
        at += 1


def mask_text(mask: Mask) -> str:
    """The text of a mask, as `parse_mask` takes it: of the same one, or of one that does the same.

    No parameter may be empty there, so those that are get what is default anyway.
    """
    given = list(mask.parameters)
    while given and not given[-1]:
        given.pop()
    parameters = [text or _DEFAULTS[place] for place, text in enumerate(given)]
    return ",".join(map(_quoted, (mask.name, *parameters)))


def _quoted(name: str) -> str:
    if name and all(map(_is_plain, name)):
        return name
    return "`" + name.replace("`", "``") + "`"


def _name(text: str, start: int) -> tuple[str, int]:
    """The name that begins at `start`, and where it ends."""
    if text[start : start + 1] != "`":
        at = start
        while at < len(text) and _is_plain(text[at]):
            at += 1
        if at == start:
            raise UsageError(f"no mask: {text!r:.200}, a name or parameter is missing at character {at}")
        return text[start:at], at
    quoted = _BETWEEN_QUOTES.match(text, start)
    if quoted is None:
        raise UsageError(f"no mask: {text!r:.200}, the back quote at character {start} is not closed")
    if not quoted[1]:
        raise UsageError(f"no mask: {text!r:.200}, nothing between back quotes at character {start}")
    return quoted[1].replace("``", "`"), quoted.end()


def _is_plain(character: str) -> bool:
    """What Java has in names: letters and digits of 16 bits."""
    category = unicodedata.category(character)
    return character == "_" or ((category[0] == "L" or category == "Nd") and character < "\U00010000")


# --- vectors ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Masking:
    """A mask for vectors of a type.

    `_leaves` make the values of a kind; those of other kinds become null, and without leaves everything.
    """

    _leaves: Mapping[Kind, Leaf] | None

    def apply(self, field: Field, vector: Vector) -> Vector:
        """The masked vector, of the same field.

        Raises Unsupported (`vector_too_large`) where masked texts are too many bytes for one vector,
        ValueError for vectors whose offsets contradict their buffers.
        """
        if self._leaves is None:
            return nulls_of(field, vector.length)
        match field.format:
            case "+s":
                return self._struct(field, vector)
            case "+l" | "+m":
                return self._list(field, vector)
            case format_ if format_.startswith("+ud:"):
                return self._union(field, vector)
        leaf = self._leaves.get(field.type.kind)
        if leaf is None or not vector.length:
            return nulls_of(field, vector.length)
        if field.dictionary is not None:
            return _dictionary(leaf, field.dictionary, vector)
        return leaf(field, vector)

    def _struct(self, field: Field, vector: Vector) -> Vector:
        children = tuple(map(self.apply, field.children, vector.struct_children()))
        bitmap, nulls = nulls_where(validity_bits(vector))
        return Vector(vector.length, (bitmap,), nulls, children=children)

    def _list(self, field: Field, vector: Vector) -> Vector:
        count = vector.length
        lengths = lengths_of(vector)
        offsets = np.zeros(count + 1, "i4")
        np.cumsum(lengths, out=offsets[1:])
        first = int(window(vector.buffers[1], "i4", vector.offset, 1)[0]) if count else 0
        (items,) = vector.children
        if first < 0 or (lengths < 0).any() or first + int(offsets[-1]) > items.length:
            raise ValueError("offsets beyond the items of a list")
        child = self.apply(field.children[0], items.slice(first, first + int(offsets[-1])))
        bitmap, nulls = nulls_where(validity_bits(vector))
        return Vector(count, (bitmap, as_buffer(offsets)), nulls, children=(child,))

    def _union(self, field: Field, vector: Vector) -> Vector:
        tags = window(vector.buffers[0], "i1", vector.offset, vector.length).copy()
        places = np.zeros(vector.length, "i4")
        children = []
        for tag, (child, own) in enumerate(zip(field.children, union_children(field, vector), strict=True)):
            places[tags == tag] = np.arange(own.length, dtype="i4")
            children.append(self.apply(child, own))
        buffers = (as_buffer(tags), as_buffer(places))
        return Vector(vector.length, buffers, 0, children=tuple(children))


def _dictionary(leaf: Leaf, entries_field: Field, vector: Vector) -> Vector:
    """The entries masked; those that the rows have, where these are fewer than the entries."""
    entries, valid = vector.dictionary, validity_bits(vector)
    assert entries is not None
    numbers = items_of(vector, "i4")
    numbers = numbers.copy() if valid is None else np.where(valid, numbers, 0).astype("i4")
    if entries.length > vector.length:
        used, inverse = np.unique(numbers, return_inverse=True)
        numbers = inverse.reshape(-1).astype("i4")
        chosen = select_positions(used.astype("i8"), len(used), entries.length)
        entries = compact([(entries, chosen)], entries_field)
    bitmap, nulls = nulls_where(valid)
    masked = leaf(entries_field, entries)
    return Vector(vector.length, (bitmap, as_buffer(numbers)), nulls, dictionary=masked)


# --- SHA-256 ---------------------------------------------------------------------------------------


def _text_digests(field: Field, vector: Vector) -> Vector:
    """Upper-case hexadecimal, cut to what char and varchar take; of a char without blanks at its end."""
    most = _HEXADECIMAL_BYTES if field.type.max_length is None else field.type.max_length
    return _digests(vector, hexadecimal=True, most=most, trims=field.type.kind is Kind.CHAR)


def _binary_digests(field: Field, vector: Vector) -> Vector:  # noqa: ARG001
    return _digests(vector, hexadecimal=False, most=0, trims=False)


def _digests(vector: Vector, *, hexadecimal: bool, most: int, trims: bool) -> Vector:
    bitmap, nulls = nulls_where(validity_bits(vector))
    held = vector.buffers[0] if nulls else None
    rows = (vector.offset, vector.length)
    try:
        texts = digests(vector.buffers[1], vector.buffers[2], held, *rows, hexadecimal, most, trims)
    except OverflowError:
        raise too_large("too many bytes of digests") from None
    return Vector(vector.length, (bitmap, *texts), nulls)


_DIGESTS: dict[Kind, Leaf] = {
    Kind.STRING: _text_digests,
    Kind.CHAR: _text_digests,
    Kind.VARCHAR: _text_digests,
    Kind.BINARY: _binary_digests,
}
