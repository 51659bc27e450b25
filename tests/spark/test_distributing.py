"""Work on Spark leaves a session as it was."""

from __future__ import annotations

from typing import Any

import pytest

from orcstream.spark.jobs.distributing import SparkTasks


class Context:
    """What `SparkTasks` uses of a SparkContext, in this process."""

    defaultParallelism = 1  # noqa: N815 - Spark's name

    def __init__(self) -> None:
        self.properties: dict[str, str | None] = {}
        self.value = 0

    def accumulator(self, _: int) -> Context:
        return self

    def add(self, count: int) -> None:
        self.value += count

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def setLocalProperty(self, name: str, value: str | None) -> None:
        self.properties[name] = value

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:
        for name, value in (("jobGroup.id", group), ("job.description", description)):
            self.properties[f"spark.{name}"] = value
        self.properties["spark.job.interruptOnCancel"] = str(interruptOnCancel).lower()

    def parallelize(self, units: Any, _: int) -> Any:
        class Rows:
            def map(self, work: Any) -> Any:
                self.work = work
                return self

            def collect(self) -> list[Any]:
                return [self.work(unit) for unit in units]

        return Rows()


def test_the_group_of_the_caller_s_jobs_stays() -> None:
    class Session:
        sparkContext = Context()  # noqa: N815 - Spark's name

    context = Session.sparkContext
    context.setJobGroup("mine", "my own", interruptOnCancel=True)
    before = dict(context.properties)
    assert SparkTasks(Session())("work", [1, 2], lambda one: one + 1) == [2, 3]  # type: ignore[arg-type]
    assert context.properties == before
    with pytest.raises(ZeroDivisionError):
        SparkTasks(Session())("work", [0], lambda one: 1 // one)  # type: ignore[arg-type]
    assert context.properties == before
