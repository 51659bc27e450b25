"""The command line's `job`: ingest, compact, verify and profile on Spark.

Knows what jobs take and answer, as text. Must not know how they work. Spark is started here, or found: a
program that `spark-submit` runs has its session already.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import anyio

import orcstream
from orcstream.cli.arguments import add_command, add_flag, add_options, add_pairs, byte_size, given_to
from orcstream.cli.commands.acid import compaction_lines
from orcstream.cli.output import Progress, report, short
from orcstream.figures import bytes_text, counted

JOB_HELP = """Jobs run on Spark: pip install 'orcstream[spark]'. Without --master they run where spark-submit
or spark-defaults.conf say, else on all cores of this machine. A job that was killed is started again with
the same arguments, and goes on.

  orcstream job ingest logs/ s3://bucket/logs/ --from json --z-order user,started --partition-by day \\
      --checkpoint file:///var/lib/logs
  orcstream job compact s3://bucket/logs/ --target-size 256m
  orcstream job compact-acid hdfs://namenode/warehouse/orders --kind major
  orcstream job verify s3://bucket/logs/ --report s3://bucket/reports/logs/
  orcstream job profile s3://bucket/logs/ --no-distinct"""
# The exit status, and what is printed: a document, or lines.
Done: TypeAlias = tuple[int, Any, Sequence[str]]
# So many findings and columns are shown; the others are counted.
_SHOWN = 20


def add_job_options(command: argparse.ArgumentParser) -> None:
    """The jobs, each with its own arguments."""
    jobs = command.add_subparsers(required=True, metavar="JOB")

    ingest = _job(jobs, "ingest", _ingest, "rows of CSV, JSON, Parquet or ORC files, into ORC files")
    add_options(ingest, "source", help="a folder, a file or a pattern, as Spark reads it")
    add_options(ingest, "target", help="the folder of the ORC files")
    ingest.add_argument("--from", dest="format", metavar="FORMAT", help="csv, json, parquet, orc or text")
    ingest.add_argument("--schema", metavar="TEXT", help="as Spark writes it: 'id bigint, text string'")
    add_pairs(ingest, "--option", "source_options", "of Spark's reader")
    add_pairs(ingest, "--write-option", "options", "of our writer")
    for name, dest, purpose in (
        ("--sort", "sort_by", "rows in this order"),
        ("--z-order", "z_order_by", "rows so that indexes prune by any of these"),
        ("--partition-by", "partition_by", "columns as folders"),
    ):
        ingest.add_argument(name, dest=dest, type=_names, metavar="a,b", help=purpose)
    ingest.add_argument("--partitions", type=int, metavar="N", help="tasks that write ordered rows")
    _add_size(ingest, "--batch-size", "batch_bytes", "what is committed at a time")
    ingest.add_argument("--checkpoint", metavar="FOLDER", help="what says which files were taken")
    _add_common(ingest)

    compact = _job(jobs, "compact", _compact, "few large files in place of many small ones")
    compact.add_argument("folder", metavar="FOLDER", help="a table, with the folders of its partitions")
    _add_size(compact, "--target-size", "target_bytes", "default: 256m")
    _add_size(compact, "--below", "below_bytes", "only smaller files: half of that")
    compact.add_argument("--how", choices=("auto", "copy", "rewrite"), default="auto")
    _add_common(compact)

    table = _job(jobs, "compact-acid", _compact_table, "few large directories of a transactional table")
    add_options(table, "url", help="the table's directory")
    add_options(table, "--kind", "--partition")
    table.add_argument("--metastore", metavar="URL", help="of a table that Hive shares: thrift://host:9083")
    table.add_argument("--table", metavar="NAME", help="its name there: database.table")
    add_options(table, "--memory-limit", help="what a task may take (default: 256MB)")
    _add_common(table)

    verify = _job(jobs, "verify", _verify, "whether files can be read and are what they say")
    _add_looking(verify)
    _add_common(verify)

    profile = _job(jobs, "profile", _profile, "what columns hold and cost, and which of them indexes prune")
    _add_looking(profile)
    purpose = "metadata only: no row is read"
    add_flag(profile, "--no-distinct", purpose, action="store_false", dest="distinct")
    _add_common(profile)


def _add_looking(command: argparse.ArgumentParser) -> None:
    command.add_argument("paths", metavar="PATH", nargs="+", help="files, folders or patterns")
    command.add_argument("--report", metavar="FOLDER", help="write the result as a table of ORC files")
    command.add_argument("--journal", metavar="FOLDER", help="what a job that was killed goes on from")


def _add_size(command: argparse.ArgumentParser, name: str, dest: str, purpose: str) -> None:
    command.add_argument(name, dest=dest, type=byte_size, metavar="SIZE", help=purpose)


def _job(jobs: Any, name: str, work: Callable[..., Done], purpose: str) -> argparse.ArgumentParser:
    return add_command(jobs, name, partial(_run, work), purpose, f"On Spark: {purpose}.")


def _add_common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--master", metavar="URL", help="of Spark, such as local[4] or yarn")
    add_pairs(command, "--conf", "conf", "of Spark's session")
    add_options(command, "--keys", "--storage-options", "--json")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


# --- Spark -----------------------------------------------------------------------------------------


async def _run(work: Callable[..., Done], options: argparse.Namespace) -> int:
    """One job, on a thread, with a line about its progress."""
    async with Progress() as progress:

        def tell(label: str, done: int, total: int) -> None:
            progress.text = lambda: f"{label}: {done:,} of {total:,}" if total else f"{label}: {done:,}"

        def run() -> Done:
            with _session(options) as spark:
                return work(spark, options, tell)

        status, document, lines = await anyio.to_thread.run_sync(run)
    report(options, document, lines)
    return status


@contextmanager
def _session(options: argparse.Namespace) -> Iterator[Any]:
    """The session that there is, or one that ends with the job."""
    try:
        from pyspark import SparkContext
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise orcstream.UsageError(
            f"jobs need Spark, which is not there ({error}): pip install 'orcstream[spark]'"
        ) from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # A session is active in the thread that made it only; its context is the process's.
    is_ours = SparkContext._active_spark_context is None  # noqa: SLF001
    builder = SparkSession.builder.appName("orcstream job")
    if options.master:
        builder = builder.master(options.master)
    given = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR", **dict(options.conf)}
    for key, value in given.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
        try:
            yield spark
        finally:
            if is_ours:
                spark.stop()
    except PySparkException as error:
        raise orcstream.OrcError(_cause(str(error))) from error


def _cause(text: str) -> str:
    """Of what Spark says of a task that failed, the error of this package."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(("orcstream.errors.", "FileNotFoundError", "OSError"))]
    return (ours or lines or ["Spark failed"])[-1 if ours else 0]


# --- jobs ------------------------------------------------------------------------------------------


def _ingest(spark: Any, options: argparse.Namespace, progress: Any) -> Done:
    from orcstream.spark import jobs

    writing = dict(options.options)
    if options.storage_options:
        writing["storage_options"] = json.dumps(options.storage_options)
    if options.keys:
        writing["keys"] = options.keys
    result = jobs.ingest(
        spark,
        **given_to(
            jobs.ingest,
            options,
            source_options=dict(options.source_options),
            options=writing,
            progress=progress,
        ),
    )
    text = f"{counted(result.row_count, 'row')} in {counted(result.file_count, 'file')}"
    line = f"{result.url}: {text}, {bytes_text(result.length)}, {counted(result.batch_count, 'commit')}"
    return 0, dataclasses.asdict(result), [line]


def _compact(spark: Any, options: argparse.Namespace, progress: Any) -> Done:
    from orcstream.spark import jobs

    result = jobs.compact(spark, **given_to(jobs.compact, options, progress=progress))
    text = f"{counted(result.removed_count, 'file')} became {counted(result.made_count, 'file')}"
    if result.is_continued:
        text += ", of a job that had been killed"
    lines = [f"{result.url}: {text}"]
    lines += [f"  left as they are: {one.reason}" for one in result.left[:_SHOWN]]
    counts = {"removed": result.removed_count, "made": result.made_count}
    return 0, {**counts, **dataclasses.asdict(result)}, lines


def _compact_table(spark: Any, options: argparse.Namespace, progress: Any) -> Done:
    from orcstream.spark import jobs

    result = jobs.compact_table(spark, **given_to(jobs.compact_table, options, progress=progress))
    return 0, dataclasses.asdict(result), compaction_lines(result)


def _verify(spark: Any, options: argparse.Namespace, progress: Any) -> Done:
    from orcstream.spark import jobs

    result = jobs.verify(spark, **given_to(jobs.verify, options, progress=progress))
    looked_at = ", ".join(
        counted(count, word)
        for count, word in (
            (result.file_count, "file"),
            (result.row_count, "row"),
            (result.stripe_count, "stripe"),
            (result.claim_count, "claim"),
        )
    )
    wrong = [one for one in result.findings if not one.known]
    lines = [f"{'sound' if result.is_sound else 'not sound'}: {looked_at}"]
    for one in wrong[:_SHOWN]:
        place = "" if one.stripe is None else f", stripe {one.stripe}"
        place += "" if one.row_group is None else f", row group {one.row_group}"
        values = f"{one.recorded} is recorded, {one.found} found" if one.recorded else one.found
        lines.append(f"  {one.url}{place}: {one.kind} {one.column}: {values}")
    if len(wrong) > _SHOWN:
        lines.append(f"  and {len(wrong) - _SHOWN:,} more; --report writes them all")
    return int(not result.is_sound), {"sound": result.is_sound, **dataclasses.asdict(result)}, lines


def _profile(spark: Any, options: argparse.Namespace, progress: Any) -> Done:
    from orcstream.spark import jobs

    result = jobs.profile(spark, **given_to(jobs.profile, options, progress=progress))
    counts = f"{counted(result.file_count, 'file')}, {counted(result.row_count, 'row')}"
    lines = [f"{counts}, {bytes_text(result.length)}"]
    for one in result.columns:
        facts = [f"{one.name} {one.type}", bytes_text(one.stored_bytes), "/".join(one.encodings)]
        if one.compression_ratio is not None:
            facts.append(f"ratio {one.compression_ratio:.1f}")
        if one.distinct is not None:
            facts.append(f"about {one.distinct:,} values")
        if one.minimum is not None:
            facts.append(f"{short(one.minimum)} to {short(one.maximum)}")
        if one.null_count:
            facts.append(counted(one.null_count, "null"))
        if one.point_share is not None:
            facts.append(f"a value leaves {one.point_share:.1%} of row groups")
        lines.append(f"  {', '.join(facts)}")
    return 0, dataclasses.asdict(result), lines
