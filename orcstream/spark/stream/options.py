"""What a user says of a stream that is read: which files, how many at a time, and what becomes of odd ones.

Knows the names of the options. Must not know how files are found or read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxFiles

from orcstream.errors import UsageError
from orcstream.io.folders import is_pattern
from orcstream.io.urls import protocol_of
from orcstream.spark.options import Options
from orcstream.spark.read.reading import LoadOptions

# Below the folder that is read, where no option `log` names another; readers leave it out.
_LOG_FOLDER: Final = "_orcstream_stream"
_SNAPSHOT_EVERY: Final = 100
_OF_STREAMS: Final = frozenset(
    "log log_snapshot_every maxfilespertrigger maxbytespertrigger latestfirst maxfileage existing_files "
    "replaced_files cleansource".split()
)


def without_stream_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those that a batch has, too."""
    return {name: value for name, value in options.items() if name.lower() not in _OF_STREAMS}


@dataclass(frozen=True)
class StreamOptions:
    """`log` is a folder for the logs of streams."""

    read: LoadOptions
    log: str
    limit: ReadLimit
    latest_first: bool
    max_age_s: float | None
    existing: str
    replaced: str
    snapshot_every: int

    @classmethod
    def of(cls, given: Mapping[str, str]) -> StreamOptions:
        options = Options(given)
        read = LoadOptions.taken(options)
        found = cls(
            read=replace(read, choice=replace(read.choice, ignore_missing=_may_be_empty(read))),
            log=_log(options, read.choice.roots),
            limit=_limit(options),
            latest_first=options.truth("latestFirst"),
            max_age_s=options.seconds("maxFileAge"),
            existing=options.one_of("existing_files", ("include", "ignore")),
            replaced=options.one_of("replaced_files", ("ignore", "read", "fail")),
            snapshot_every=options.count("log_snapshot_every", _SNAPSHOT_EVERY),
        )
        cleans = options.text("cleanSource", "off")
        options.finish()
        if cleans != "off":
            raise UsageError(
                "option cleanSource is not there: nothing that is read is moved or removed; "
                "remove files that are older than the stream needs from outside"
            )
        found._check()
        return found

    def _check(self) -> None:
        if self.read.rows is not None:
            raise UsageError("option rows is for one file, and a stream is of many")
        if self.latest_first and self.max_age_s is not None:
            raise UsageError(
                "options latestFirst and maxFileAge do not go together: old files that wait would be left out"
            )


def _limit(options: Options) -> ReadLimit:
    files, size = options.count("maxFilesPerTrigger", 0), options.size("maxBytesPerTrigger", 0)
    if files and size:
        raise UsageError("options maxFilesPerTrigger and maxBytesPerTrigger: give one of them")
    if files:
        return ReadMaxFiles(files)
    return ReadMaxBytes(size) if size else ReadAllAvailable()


def _log(options: Options, roots: tuple[str, ...]) -> str:
    given = options.text("log")
    if given is not None:
        return given.rstrip("/")
    if len(roots) > 1:
        raise UsageError(
            "a stream of several paths has no folder of its own: say where to keep what was read by "
            "option('log', ...)"
        )
    return f"{roots[0]}/{_LOG_FOLDER}"


def _may_be_empty(read: LoadOptions) -> bool:
    """A pattern may match files later; and S3 knows no folder before there is a file in it."""
    choice = read.choice
    return choice.ignore_missing or any(
        is_pattern(path) or protocol_of(path) in ("s3", "s3a") for path in choice.paths
    )
