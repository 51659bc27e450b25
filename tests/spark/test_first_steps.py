"""The documentation's first steps on Spark, as they stand there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from tests.generators.trips import trips
from tests.meta.test_docs_snippets import SNIPPETS


def test_the_block_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (snippet,) = (one for one in SNIPPETS if one.label.startswith("docs/first-steps.md") and one.reason)
    monkeypatch.chdir(tmp_path)
    orc.write_table(trips(), "trips.orc", compression="zstd")
    code = snippet.code.replace('"trips.orc"', repr(str(tmp_path / "trips.orc")))
    exec(code, {"spark": spark})
    assert capsys.readouterr().out == snippet.printed
