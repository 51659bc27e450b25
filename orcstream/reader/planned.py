"""What a read is to do, once that is planned: its stripes, its parts, and what carries them out.

Knows what belongs to a read. Must not know how that is found out (`reader.planning`), nor how it is done
(`reader.brief`, `reader.reading`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orcstream.batch import Batch, BatchSchema
from orcstream.byterange import ByteRange
from orcstream.errors import located
from orcstream.file.unlocking import UnlockedFile
from orcstream.io.loop.tasks import Running
from orcstream.plan.selection import RowGroups, Rows, count_rows, wanted_in
from orcstream.reader.engine.fetching import PipelineOptions
from orcstream.reader.engine.pipeline import Shaper
from orcstream.reader.engine.session import PrunedRows, ReadStatistics, Session, Watch
from orcstream.reader.engine.stripes import StripeWork

if TYPE_CHECKING:
    from orcstream.reader.engine.late import LatePlan
    from orcstream.reader.engine.pruning import Pruner

# Parsing one takes about a microsecond, and so does choosing a stripe.
_MANY_STATISTICS = 1 << 14


@dataclass(frozen=True, slots=True)
class StripeChoice:
    """The stripes that have some of `rows` and may have a match; `pruner` knows the predicate."""

    file: UnlockedFile
    url: str
    rows: Rows | None
    pruner: Pruner | None
    pruned: PrunedRows

    @property
    def statistics_range(self) -> ByteRange | None:
        """Where statistics of stripes are that may spare reading some, and did not come with the tail."""
        file, pruner = self.file, self.pruner
        if pruner is None or file.held_statistics is not None or len(file.tail.footer.stripes) < 2:
            return None
        if not pruner.file_matches:
            return None
        return file.statistics_range if file.statistics_range.length else None

    @property
    def takes_long(self) -> bool:
        """Whether `works` is for a thread: of many stripes, or with a predicate of many statistics."""
        footer = self.file.tail.footer
        each = 1 if self.pruner is None else footer.schema.column_count
        return len(footer.stripes) * each > _MANY_STATISTICS

    def works(self, statistics: memoryview | None) -> list[StripeWork]:
        """The stripes to read, given the bytes of `statistics_range` where that is not None."""
        footer, rows, pruner = self.file.tail.footer, self.rows, self.pruner
        with located(url=self.url):
            if pruner is not None and not pruner.file_matches:
                self.pruned.by_file += footer.row_count if rows is None else count_rows(rows)
                return []
            keep = [True] * len(footer.stripes)
            if pruner is not None:
                data = self.file.held_statistics if statistics is None else statistics
                if data is not None and len(footer.stripes) > 1:
                    keep = pruner.stripes(self.file.stripe_statistics(memoryview(data)))
        works: list[StripeWork] = []
        for stripe, may_match in zip(footer.stripes, keep, strict=True):
            wanted = None if rows is None else wanted_in(rows, stripe.first_row, stripe.row_count)
            if wanted == []:
                continue
            if not may_match:
                self.pruned.by_stripe += stripe.row_count if wanted is None else count_rows(wanted)
                continue
            if wanted == [(0, stripe.row_count)]:
                wanted = None
            groups = RowGroups(stripe.row_count, footer.row_index_stride)
            selects = pruner is not None or (wanted is not None and groups.count > 1)
            works.append(StripeWork(len(works), stripe, wanted, selects and stripe.index_length > 0))
        return works


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingPlan:
    """All that a stream is to read, and how.

    `late` is there where the columns of the predicate come first, `watch` where somebody watches. What is
    `brief` is read the short way: about `value_count` values are decoded then; with `is_flat` no lists and
    maps are among them.
    """

    session: Session
    schema: BatchSchema
    stripes: StripeChoice
    pipeline: PipelineOptions
    shaper: Shaper
    pruned: PrunedRows
    decode_threads: int
    brief: bool = False
    value_count: int = 0
    is_flat: bool = False
    late: LatePlan | None = None
    watch: Watch | None = None


class PlannedRead(Running):
    """What carries out a plan: the running part of a stream of batches."""

    name, owner = "orcstream read", "file"

    def __init__(self, plan: ReadingPlan) -> None:
        super().__init__()
        self.plan = plan
        self.row_count = self.batch_count = 0

    @abstractmethod
    async def next(self) -> Batch | None:
        """The next batch, or None at the end. Of a step that is cancelled, the next one misses no row."""

    @abstractmethod
    def statistics(self) -> ReadStatistics:
        """What was done so far."""

    def _counted(self, batch: Batch | None) -> Batch | None:
        if batch is not None:
            self.row_count += batch.num_rows
            self.batch_count += 1
        return batch

    def counted(self, **measured: Any) -> ReadStatistics:
        """Rows and batches, which rows were not looked at, and what was `measured` besides."""
        pruned = self.plan.pruned
        return ReadStatistics(
            row_count=self.row_count,
            batch_count=self.batch_count,
            rows_pruned_by_file=pruned.by_file,
            rows_pruned_by_stripe=pruned.by_stripe,
            rows_pruned_by_row_group=pruned.by_row_group,
            rows_pruned_by_bloom=pruned.by_bloom,
            rows_filtered=pruned.filtered + self.plan.shaper.filtered_count,
            **measured,
        )
