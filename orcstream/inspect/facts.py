"""What was found out about a file, as values; and the same as JSON.

Knows facts. Must not know how they are had, nor how they are shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orcstream.byterange import ByteRange
from orcstream.inspect.layout import Part
from orcstream.reader.engine.session import DecodeSpan, ReadStatistics, RequestSpan
from orcstream.reader.explain import Explanation


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked for, in words, and what the store would be asked for it; None where that failed."""

    columns: str
    where: str
    rows: str
    explanation: Explanation | None


@dataclass(frozen=True, slots=True)
class Run:
    """A read that was carried out. Times are seconds from its beginning, the opening of the file included."""

    duration_s: float
    row_count: int
    requests: tuple[RequestSpan, ...]
    decodes: tuple[DecodeSpan, ...]
    statistics: ReadStatistics | None


@dataclass(frozen=True, slots=True)
class StripeFacts:
    """One stripe.

    `parts` are its streams and footer in the order of the file; None where it was not looked at, or its
    footer cannot be read.
    """

    index: int
    range: ByteRange
    first_row: int
    row_count: int
    index_bytes: int
    data_bytes: int
    footer_bytes: int
    parts: tuple[Part, ...] | None = None


@dataclass(slots=True)
class ColumnFacts:
    """One column, nested ones too, summed over the stripes that were looked at.

    `part_bytes` is by kind of stream; `logical_bytes` what its values take uncompressed and unencoded (None
    where the statistics do not tell). `lock` is "" for a column in the clear, else "open" or "closed"; of a
    closed one there are no `statistics`.
    """

    column_id: int
    name: str
    type: str
    depth: int
    lock: str = ""
    part_bytes: dict[str, int] = field(default_factory=dict)
    encodings: dict[str, int] = field(default_factory=dict)
    dictionary_size: int = 0
    logical_bytes: int | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def total_bytes(self) -> int:
        """All its streams."""
        return sum(self.part_bytes.values())


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The file as a whole."""

    url: str
    file_length: int
    row_count: int
    schema: str
    compression: str
    compression_block_size: int
    format_version: str
    writer: str
    software_version: str
    row_index_stride: int
    encrypted: bool
    user_metadata: Mapping[str, str]
    parts: tuple[Part, ...]
    stripes: tuple[StripeFacts, ...]
    columns: tuple[ColumnFacts, ...]


def shallow(value: Any) -> Any:
    """A fact of one level as JSON has it; what is in it may be facts again."""
    if isinstance(value, ByteRange):
        return [value.start, value.stop]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return dict(value)


def plain(value: Any) -> Any:
    """A fact as JSON has it: dataclasses as objects, ranges as [start, stop]."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = shallow(value)
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value
