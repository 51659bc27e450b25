"""`import orcstream` is cheap: numpy's own import plus at most 60 ms, and nothing that only a store needs.

What is done with it loads little besides: modules of ours are counted, kernels among them.

CPU time of fresh interpreters is compared, not wall time: another process on the machine must not decide.
"""

from __future__ import annotations

import pickle
import statistics
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from pyspark.sql import types as spark

import orcstream
from orcstream.spark.read.reading import reader_of

LIMIT_S = 0.060
ROUNDS = 7
ATTEMPTS = 3
# Each costs tens of milliseconds or more, and a local file needs none of them.
ON_FIRST_USE = ("aiobotocore", "aiohttp", "botocore", "cryptography", "fsspec", "s3fs")
NEVER = ("duckdb", "pandas", "polars", "pyarrow", "pytest")
# How many modules of ours each may load. A new module that a read really needs raises its number.
MOST_OF_A_READ = 70
MOST_OF_A_WRITE = 96
MOST_OF_A_TASK_OF_SPARK = 74
MOST_OF_AN_ACID_READ = 94


def _cpu_seconds(statement: str) -> float:
    code = f"import time; start = time.process_time(); {statement}; print(time.process_time() - start)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)


def _difference() -> float:
    pairs = [(_cpu_seconds("import numpy"), _cpu_seconds("import orcstream")) for _ in range(ROUNDS)]
    return statistics.median(ours for _, ours in pairs) - statistics.median(numpy for numpy, _ in pairs)


def test_import_costs_little_more_than_numpy() -> None:
    _cpu_seconds("import orcstream")  # writes the byte code
    # Only a machine that is busy every time fails for another reason than ours.
    measured: list[float] = []
    while len(measured) < ATTEMPTS:
        measured.append(_difference())
        if measured[-1] <= LIMIT_S:
            return
    pytest.fail(f"import orcstream costs numpy's import plus {min(measured):.3f} s")


def _modules(statement: str, kept: str = "sys.modules") -> list[str]:
    code = f"import sys, orcstream; {statement}; print('\\n'.join({kept}))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return run.stdout.split()


def _loaded(statement: str) -> set[str]:
    return {".".join(module.split(".")[:2]) for module in _modules(statement)}


def _ours(statement: str) -> list[str]:
    """The modules of ours that are loaded, without packages, which hold a line of text each."""
    kept = "[name for name, module in sys.modules.items() if not hasattr(module, '__path__')]"
    loaded = _modules(statement, kept)
    return sorted(module for module in loaded if module.split(".")[0] == "orcstream")


def test_import_leaves_the_heavy_libraries_alone() -> None:
    loaded = _loaded("pass")
    assert "orcstream" in loaded
    assert not loaded & {*ON_FIRST_USE, *NEVER}


def test_local_files_leave_the_heavy_libraries_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "t.orc")
    loaded = _loaded(f"orcstream.blocking.write({path!r}, [(1,)], 'struct<a:int>')")
    assert "orcstream.writer" in loaded
    assert not loaded & {*ON_FIRST_USE, *NEVER}
    loaded = _loaded(f"orcstream.blocking.read({path!r}).to_pylist()")
    assert "orcstream.reader" in loaded
    assert not loaded & {"orcstream.writer", *ON_FIRST_USE, *NEVER}


def test_the_command_line_says_what_it_takes_without_what_carries_it_out() -> None:
    statement = "import orcstream.cli.main; orcstream.cli.main.make_parser().format_help()"
    loaded = _loaded(statement)
    assert "orcstream.cli.commands.acid" in _modules(statement)
    working = {
        f"orcstream.{name}" for name in ("acid", "codec", "datasets", "inspect", "reader", "writer", "spark")
    }
    assert not loaded & {"numpy", *working, *ON_FIRST_USE, *NEVER}


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t.orc")
    orcstream.blocking.write(path, [(1,)], "struct<a:int>")
    return path


def test_a_read_loads_few_modules(path: str) -> None:
    ours = _ours(f"orcstream.blocking.read({path!r})")
    assert "orcstream.reader.engine.decoding" in ours
    assert len(ours) <= MOST_OF_A_READ, ours


def test_a_write_loads_few_modules(tmp_path: Path) -> None:
    ours = _ours(f"""import anyio
async def write():
    async with orcstream.create({str(tmp_path / "t.orc")!r}, "struct<a:int>") as out:
        await out.write([(1,)])
anyio.run(write)""")
    assert "orcstream.codec.encode.file_encoder" in ours
    assert "orcstream.reader.file" not in ours
    assert len(ours) <= MOST_OF_A_WRITE, ours


def test_a_read_of_a_transactional_table_loads_few_modules(tmp_path: Path) -> None:
    async def make() -> None:
        await orcstream.acid.create_table(tmp_path, "struct<a:int>")
        async with orcstream.acid.open_table(tmp_path) as table, await table.transaction() as transaction:
            await transaction.insert([(1,)])

    anyio.run(make)
    ours = _ours(f"""import anyio
async def read():
    async with orcstream.acid.open_table({str(tmp_path)!r}) as table:
        return await table.read()
assert anyio.run(read).num_rows == 1""")
    assert "orcstream.acid.read.planning" in ours
    assert not {
        "orcstream.acid.write.writing",
        "orcstream.acid.compact.compacting",
        "orcstream.acid.transactions.metastore",
    } & set(ours)
    assert len(ours) <= MOST_OF_AN_ACID_READ, ours


def test_a_task_of_spark_loads_few_modules(path: str) -> None:
    """One that reads, in a process of its own: what the driver knows comes to it pickled."""
    fields = [spark.StructField("a", spark.IntegerType())]
    reader = reader_of(spark.StructType(fields), {"path": path})
    (partition,) = reader.partitions()
    task = pickle.dumps((reader, partition))
    ours = _ours(f"""import pickle
reader, partition = pickle.loads({task!r})
assert sum(batch.num_rows for batch in reader.read(partition)) == 1""")
    assert "orcstream.spark.read.pieces" in ours
    assert len(ours) <= MOST_OF_A_TASK_OF_SPARK, ours
