"""Verification of many files: every stripe decoded and held against what its statistics say of it.

Knows how findings become one report. Must not know how a file is verified (`OrcFile.verify`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orcstream
from orcstream._credentials import strip_credentials
from orcstream.errors import FormatError, SourceChanged, Unsupported
from orcstream.spark.access import Access, run
from orcstream.spark.jobs.distributing import Distribute, Progress, SparkTasks
from orcstream.spark.jobs.looking import Looking, Piece, hold
from orcstream.spark.jobs.tables import check_report, write_table
from orcstream.spark.write.target import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORT_SCHEMA: Final = (
    "url string, stripe bigint, row_group bigint, `column` string, kind string, recorded string, "
    "found string, known boolean"
)
PIECE_BYTES: Final = 256 << 20
_COUNTS: Final = ("row_count", "stripe_count", "row_group_count", "claim_count")


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim of the file at `url` that its values contradict.

    `stripe`, `row_group`, `column`, `kind`, `recorded` and `found` are those of `orcstream.Fault`, and
    `known` is its `is_known`.
    """

    url: str
    stripe: int | None
    row_group: int | None
    column: str
    kind: str
    recorded: str
    found: str
    known: bool


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What was looked at, and what was found (`findings`).

    `file_count` files with `row_count` rows in `stripe_count` stripes and `row_group_count` row groups;
    `claim_count` statistics were compared.
    """

    file_count: int
    row_count: int
    stripe_count: int
    row_group_count: int
    claim_count: int
    findings: tuple[Finding, ...]

    @property
    def is_sound(self) -> bool:
        """Whether everything can be read and nothing is wrong that a reader would believe."""
        return all(one.known for one in self.findings)

    def to_df(self, spark: SparkSession) -> DataFrame:
        """The findings as a table."""
        rows = [astuple(one) for one in self.findings]
        return spark.createDataFrame(rows, REPORT_SCHEMA)


def verify(
    spark: SparkSession,
    paths: str | Sequence[str],
    *,
    report: str | None = None,
    journal: str | None = None,
    storage_options: dict[str, object] | None = None,
    keys: str | None = None,
    piece_bytes: int = PIECE_BYTES,
    progress: Progress | None = None,
) -> VerifyResult:
    """Decode every stripe of all files below `paths` and compare the statistics with the values.

    Files larger than `piece_bytes` are shared out by their stripes; of those, what the footer says of the
    whole file is not compared. `storage_options` go to the stores, and `keys` is where keys are;
    `progress` is called with what is being done, how much of it is done, and of how much. `report` is a
    folder that gets the findings as a table of ORC files, in place of an earlier one; it is one of its
    own (`UsageError`). With `journal`, a folder, what was looked at is recorded there: a job that was
    killed and is started again with it goes on, and files that are the same as then, and read with the
    same key store, are not looked at again.

    Raises what stores raise; what is wrong with files is in the answer.
    """
    access = Access(storage_options or {}, keys)
    listed = [paths] if isinstance(paths, str) else list(paths)
    check_report(report, listed)
    found = verify_with(
        SparkTasks(spark, progress),
        listed,
        access,
        piece_bytes=piece_bytes,
        journal=None if journal is None else Folder(journal, access),
    )
    if report is not None:
        write_table(found.to_df(spark), report, access)
    return found


def verify_with(
    distribute: Distribute,
    paths: Sequence[str],
    access: Access,
    *,
    piece_bytes: int = PIECE_BYTES,
    journal: Folder | None = None,
) -> VerifyResult:
    """As `verify`, on anything that does units of work."""
    work = Looking("verifying", _verified, access, piece_bytes, journal)
    pieces, found = work.through(distribute, paths)
    counts = {name: sum(one[name] for one in found) for name in _COUNTS}
    findings = tuple(Finding(**fault) for one in found for fault in one["faults"])
    return VerifyResult(len({piece.url for piece in pieces}), findings=findings, **counts)


def _verified(access: Access, piece: Piece) -> Mapping[str, Any]:
    """What was found of a piece; a file that cannot be opened is a finding."""
    url = strip_credentials(piece.url)
    if piece.error:
        return _unreadable(url, piece.error)
    try:
        return run(partial(_verify, access, piece))
    except (FormatError, Unsupported, SourceChanged) as error:
        return _unreadable(url, error.message)
    except FileNotFoundError as error:
        return _unreadable(url, str(error))


async def _verify(access: Access, piece: Piece) -> Mapping[str, Any]:
    async with orcstream.open(piece.url, **await access.open_options()) as file:
        hold(file, piece)
        found = await file.verify(stripes=None if piece.stripes is None else range(*piece.stripes))
    faults = [
        Finding(
            file.url, one.stripe, one.row_group, one.column, one.kind, one.recorded, one.found, one.is_known
        )
        for one in found.faults
    ]
    return {name: getattr(found, name) for name in _COUNTS} | {"faults": [asdict(one) for one in faults]}


def _unreadable(url: str, text: str) -> Mapping[str, Any]:
    finding = Finding(url, None, None, "", "unreadable", "", text, known=False)
    return dict.fromkeys(_COUNTS, 0) | {"faults": [asdict(finding)]}
