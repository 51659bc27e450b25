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
from orcstream.cli.arguments import add_memory_limit, add_storage_options, byte_size, given_url, pair
from orcstream.cli.commands.acid import compaction_lines
from orcstream.cli.output import add_json, report
from orcstream.cli.parser import Parser, add_command
from orcstream.cli.progress import Progress
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
# Of a bound, so many characters.
_LONGEST = 40


def add_job_options(command: argparse.ArgumentParser) -> None:
    """The jobs, each with its own arguments."""
    jobs = command.add_subparsers(required=True, metavar="JOB")

    ingest = _job(jobs, "ingest", _ingest, "rows of CSV, JSON, Parquet or ORC files, into ORC files")
    ingest.add_argument(
        "source", type=given_url, metavar="SOURCE", help="a folder, a file or a pattern, as Spark reads it"
    )
    ingest.add_argument("target", type=given_url, metavar="TARGET", help="the folder of the ORC files")
    ingest.add_argument("--from", dest="format", metavar="FORMAT", help="csv, json, parquet, orc or text")
    ingest.add_argument("--schema", metavar="TEXT", help="as Spark writes it: 'id bigint, text string'")
    ingest.add_argument(
        "--option", action="append", type=pair, default=[], metavar="KEY=VALUE", help="of Spark's reader"
    )
    ingest.add_argument(
        "--write-option",
        action="append",
        type=pair,
        default=[],
        metavar="KEY=VALUE",
        help="of our writer",
    )
    ingest.add_argument("--sort", type=_names, default=(), metavar="a,b", help="rows in this order")
    ingest.add_argument(
        "--z-order", type=_names, default=(), metavar="a,b", help="rows so that indexes prune by any of these"
    )
    ingest.add_argument("--partition-by", type=_names, default=(), metavar="a,b", help="columns as folders")
    ingest.add_argument("--partitions", type=int, metavar="N", help="tasks that write ordered rows")
    ingest.add_argument(
        "--batch-size", type=byte_size, default=16 << 30, metavar="SIZE", help="what is committed at a time"
    )
    ingest.add_argument("--checkpoint", metavar="FOLDER", help="what says which files were taken")
    _add_common(ingest)

    compact = _job(jobs, "compact", _compact, "few large files in place of many small ones")
    compact.add_argument("folder", metavar="FOLDER", help="a table, with the folders of its partitions")
    compact.add_argument(
        "--target-size", type=byte_size, default=256 << 20, metavar="SIZE", help="default: 256m"
    )
    compact.add_argument("--below", type=byte_size, metavar="SIZE", help="only smaller files: half of that")
    compact.add_argument("--how", choices=("auto", "copy", "rewrite"), default="auto")
    _add_common(compact)

    table = _job(jobs, "compact-acid", _compact_table, "few large directories of a transactional table")
    table.add_argument("url", type=given_url, metavar="URL", help="the table's directory")
    table.add_argument("--kind", choices=("minor", "major"), default="minor")
    table.add_argument(
        "--partition", action="append", metavar="PATH", help="only this one, such as country=DE; repeatable"
    )
    table.add_argument("--metastore", metavar="URL", help="of a table that Hive shares: thrift://host:9083")
    table.add_argument("--table", metavar="NAME", help="its name there: database.table")
    add_memory_limit(table, 256 << 20, "what a task may take")
    _add_common(table)

    verify = _job(jobs, "verify", _verify, "whether files can be read and are what they say")
    _add_looking(verify)
    _add_common(verify)

    profile = _job(jobs, "profile", _profile, "what columns hold and cost, and which of them indexes prune")
    _add_looking(profile)
    profile.add_argument("--no-distinct", action="store_true", help="metadata only: no row is read")
    _add_common(profile)


def _add_looking(command: argparse.ArgumentParser) -> None:
    command.add_argument("paths", metavar="PATH", nargs="+", help="files, folders or patterns")
    command.add_argument("--report", metavar="FOLDER", help="write the result as a table of ORC files")
    command.add_argument("--journal", metavar="FOLDER", help="what a job that was killed goes on from")


def _job(jobs: Any, name: str, work: Callable[..., Done], purpose: str) -> Parser:
    return add_command(jobs, name, partial(_run, work), purpose, f"On Spark: {purpose}.")


def _add_common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--master", metavar="URL", help="of Spark, such as local[4] or yarn")
    command.add_argument(
        "--conf", action="append", type=pair, default=[], metavar="KEY=VALUE", help="of Spark's session"
    )
    command.add_argument("--keys", metavar="STORE", help="where the keys of encrypted columns are")
    add_storage_options(command)
    add_json(command)


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

    writing = dict(options.write_option)
    if options.storage_options:
        writing["storage_options"] = json.dumps(options.storage_options)
    if options.keys:
        writing["keys"] = options.keys
    result = jobs.ingest(
        spark,
        options.source,
        options.target,
        format=options.format,
        schema=options.schema,
        source_options=dict(options.option),
        options=writing,
        sort_by=options.sort,
        z_order_by=options.z_order,
        partition_by=options.partition_by,
        partitions=options.partitions,
        batch_bytes=options.batch_size,
        checkpoint=options.checkpoint,
        progress=progress,
    )
    text = f"{counted(result.row_count, 'row')} in {counted(result.file_count, 'file')}"
    line = f"{result.url}: {text}, {bytes_text(result.length)}, {counted(result.batch_count, 'commit')}"
    return 0, dataclasses.asdict(result), [line]


def _compact(spark: Any, options: argparse.Namespace, progress: Any) -> Done:
    from orcstream.spark import jobs

    result = jobs.compact(
        spark,
        options.folder,
        target_bytes=options.target_size,
        below_bytes=options.below,
        how=options.how,
        storage_options=options.storage_options,
        keys=options.keys,
        progress=progress,
    )
    text = f"{counted(result.removed_count, 'file')} became {counted(result.made_count, 'file')}"
    if result.is_continued:
        text += ", of a job that had been killed"
    lines = [f"{result.url}: {text}"]
    lines += [f"  left as they are: {one.reason}" for one in result.left[:_SHOWN]]
    counts = {"removed": result.removed_count, "made": result.made_count}
    return 0, {**counts, **dataclasses.asdict(result)}, lines


def _compact_table(spark: Any, options: argparse.Namespace, progress: Any) -> Done:
    from orcstream.spark import jobs

    result = jobs.compact_table(
        spark,
        options.url,
        kind=options.kind,
        partitions=options.partition,
        metastore=options.metastore,
        table=options.table,
        memory_limit=options.memory_limit,
        storage_options=options.storage_options,
        keys=options.keys,
        progress=progress,
    )
    return 0, dataclasses.asdict(result), compaction_lines(result)


def _verify(spark: Any, options: argparse.Namespace, progress: Any) -> Done:
    from orcstream.spark import jobs

    result = jobs.verify(spark, options.paths, **_looking(options), progress=progress)
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

    given = _looking(options)
    result = jobs.profile(spark, options.paths, distinct=not options.no_distinct, **given, progress=progress)
    counts = f"{counted(result.file_count, 'file')}, {counted(result.row_count, 'row')}"
    lines = [f"{counts}, {bytes_text(result.length)}"]
    for one in result.columns:
        facts = [f"{one.name} {one.type}", bytes_text(one.stored_bytes), "/".join(one.encodings)]
        if one.compression_ratio is not None:
            facts.append(f"ratio {one.compression_ratio:.1f}")
        if one.distinct is not None:
            facts.append(f"about {one.distinct:,} values")
        if one.minimum is not None:
            facts.append(f"{_short(one.minimum)} to {_short(one.maximum or '')}")
        if one.null_count:
            facts.append(counted(one.null_count, "null"))
        if one.point_share is not None:
            facts.append(f"a value leaves {one.point_share:.1%} of row groups")
        lines.append(f"  {', '.join(facts)}")
    return 0, dataclasses.asdict(result), lines


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _looking(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "report": options.report,
        "journal": options.journal,
        "storage_options": options.storage_options,
        "keys": options.keys,
    }
