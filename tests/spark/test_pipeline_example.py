"""The example of a pipeline runs, and shows what it says."""

from __future__ import annotations

import runpy

import pytest
from pyspark.sql import SparkSession

from tests.meta.tree import ROOT

# Spark takes long to begin where others are at work.
pytestmark = pytest.mark.timeout(300)


def test_pipeline(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "spark_pipeline.py"))["main"]()
    printed = capsys.readouterr().out
    assert "6 batches, " in printed
    assert "files became 2; now 2 files" in printed
    assert "30,000 rows, " in printed
    assert "sound: True" in printed
    assert "a value of user leaves 100% of " in printed
    assert "50 rows, " in printed
