"""What a predicate spares reading: stripes by their statistics, row groups by indexes and bloom filters.

Knows which facts of a file and a stripe `plan.prune` wants. Must not fetch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from orcstream.codec.crypto.forms import PlacedStream, StripeForm
from orcstream.codec.metadata.bloom import BloomIndex
from orcstream.codec.metadata.indexes import RowIndex
from orcstream.codec.metadata.structure import StatisticsList, StreamKind, StripeFooter
from orcstream.file.zones import FileTimes
from orcstream.plan.projection import Source
from orcstream.plan.prune.proof import Outcome
from orcstream.plan.prune.prune import ABSENT, Questions, bloom_columns, group_outcomes, stripe_outcomes
from orcstream.plan.selection import RowGroups
from orcstream.plan.tail import Tail, trust_in
from orcstream.query.predicate import Leaf, Predicate, leaves_of
from orcstream.schema.column_statistics import Trust
from orcstream.schema.types import FileColumn, Kind, Type


class Pruner:
    """What the file's own numbers say about one predicate.

    `sources` are the predicate's top-level columns; `times` decides in which zone TIMESTAMP values are read.
    """

    def __init__(self, tail: Tail, predicate: Predicate, sources: Sequence[Source], times: FileTimes) -> None:
        self._tail = tail
        self._predicate = predicate
        self._sources = {source.name: source for source in sources}
        self._times = times
        self._questions = Questions()
        self._trust = trust_in(tail)
        self._is_zoned = any(leaf.type.kind is Kind.TIMESTAMP for leaf in leaves_of(predicate))
        # Stripes name their zones in their footers, which are not read yet.
        self._unzoned = self._zoned(None)

    @cached_property
    def columns(self) -> frozenset[FileColumn]:
        """The file columns whose indexes say something."""
        found = (self._column_of(leaf) for leaf in leaves_of(self._predicate))
        return frozenset(column for column in found if column is not None and column != ABSENT)

    def wants_bloom(self, stream: PlacedStream, footer: StripeFooter, form: StripeForm) -> bool:
        """Whether a stream is a bloom filter that helps and may be believed."""
        if stream.kind not in (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8):
            return False
        if stream.column not in self.columns:
            return False
        trust = self._zoned(footer.writer_timezone)
        kind = bloom_columns(self._predicate, self._column_of, trust, self._questions).get(stream.column)
        utf8 = stream.kind is StreamKind.BLOOM_FILTER_UTF8
        encoding = form.encodings[stream.column].bloom_encoding
        return kind is not None and trust.believes_bloom(kind, encoding, utf8=utf8)

    @cached_property
    def file_matches(self) -> bool:
        """Whether any row of the file may match."""
        (outcome,) = stripe_outcomes(
            self._predicate,
            self._column_of,
            [self._tail.footer.statistics],
            [self._tail.footer.row_count],
            self._unzoned,
        )
        return Outcome.TRUE in outcome

    def stripes(self, statistics: Sequence[StatisticsList]) -> list[bool]:
        """Which stripes may have matches."""
        counts = [stripe.row_count for stripe in self._tail.footer.stripes]
        outcomes = stripe_outcomes(self._predicate, self._column_of, statistics, counts, self._unzoned)
        return [Outcome.TRUE in outcome for outcome in outcomes]

    def groups(
        self,
        groups: RowGroups,
        footer: StripeFooter,
        indexes: Mapping[FileColumn, RowIndex],
        blooms: Mapping[FileColumn, BloomIndex],
    ) -> tuple[list[bool], list[bool]]:
        """Which row groups of a stripe may have matches: by statistics alone, and with bloom filters."""
        counts = [groups.first_row(group + 1) - groups.first_row(group) for group in range(groups.count)]
        if groups.count == 1:
            counts = [groups.row_count]
        trust = self._zoned(footer.writer_timezone)
        by_statistics = self._matching(
            group_outcomes(self._predicate, self._column_of, indexes, {}, counts, trust, self._questions)
        )
        if not blooms:
            return by_statistics, by_statistics
        return by_statistics, self._matching(
            group_outcomes(self._predicate, self._column_of, indexes, blooms, counts, trust, self._questions)
        )

    @staticmethod
    def _matching(outcomes: Sequence[Outcome]) -> list[bool]:
        return [Outcome.TRUE in outcome for outcome in outcomes]

    def _zoned(self, written: str | None) -> Trust:
        """What is believed of a stripe that was written in a zone, None where it is not known."""
        return self._times.trust(self._trust, written) if self._is_zoned else self._trust

    def _column_of(self, leaf: Leaf) -> FileColumn | None:
        """The file's column that a leaf asks about: None where converted, ABSENT where there is none."""
        source = self._sources[leaf.path[0]]
        if source.file_type is None:
            return ABSENT
        read, stored = source.type, source.file_type
        for name in leaf.path[1:]:
            if stored.kind is not Kind.STRUCT or name not in stored.field_names:
                return ABSENT if stored.kind is Kind.STRUCT else None
            read = read.children[read.field_names.index(name)]
            stored = stored.children[stored.field_names.index(name)]
        return stored.column_id if _same_values(stored, read) else None


def _same_values(stored: Type, read: Type) -> bool:
    """Whether a leaf's values are read as they are stored."""
    shapes = [(type_.kind, type_.max_length, type_.precision, type_.scale) for type_ in (stored, read)]
    return shapes[0] == shapes[1] and (not stored.children or stored == read)


def names_in(predicate: Predicate) -> list[tuple[str, ...]]:
    """The columns a predicate looks at, each once, without those within another one of them."""
    paths = sorted({leaf.path for leaf in leaves_of(predicate)})
    return [
        path for path in paths if not any(path != other and path[: len(other)] == other for other in paths)
    ]
