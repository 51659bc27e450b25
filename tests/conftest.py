"""What every test stands on: the event loop's backend, the corpus, the judges, hypothesis' profiles.

ORCSTREAM_CORPUS names the corpus folder. If it is not set, the fixture `corpus_folder` skips the tests that
use it; if it is wrong, they fail. A run ends with what did not run and why; ORCSTREAM_REQUIRE_SERVERS=1 makes
that fail.
ORCSTREAM_TEST_ALL=1 tries all of what `make test` tries a share of (`effort`).
Small files are read in two ways (`orcstream.reader.brief`, `orcstream.reader.reading`): half of the tests
take the short one, the others the long one; ORCSTREAM_TEST_WAYS=swapped has each take the other one.
ORCSTREAM_TEST_PROFILE=long makes property tests search longer, from random seeds.
"""

from __future__ import annotations

import gc
import inspect
import os
import signal
import zlib
from pathlib import Path
from types import FunctionType

import hypothesis
import pytest

from orcstream.reader import planning
from tests.reference import corpus_place, java_orc
from tests.support.effort import is_in_sample, share
from tests.support.needs import not_here, not_run_lines

# Failures are not shrunk by default: a run must end in time, and the seed is in the report. "long" shrinks.
_PHASES = tuple(phase for phase in hypothesis.Phase if phase.name not in ("shrink", "explain"))
hypothesis.settings.register_profile(
    "default",
    derandomize=True,
    phases=_PHASES,
    print_blob=True,
    max_examples=share(50, 7),
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.register_profile(
    "long", max_examples=2000, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)
hypothesis.settings.load_profile(os.environ.get("ORCSTREAM_TEST_PROFILE", "default"))

TIMEOUT_S = 120


def pytest_configure(config: pytest.Config) -> None:
    # Rows are many small objects: by default, the collector takes as long as what makes and compares them.
    gc.set_threshold(10_000)
    # What a shell runs in the background ignores interrupts, and so would the programs that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "corpus: uses the fixture corpus_folder, which sets this marker")
    config.addinivalue_line("markers", "sampled: `make test` runs a part of its cases, `make test-all` all")
    config.addinivalue_line("markers", "java: needs a JDK (ORCSTREAM_WITHOUT_JAVA=1 skips)")


# anyio's own setting for this is newer than the oldest anyio that the package works with.
@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> None:
    """Run each asynchronous test by anyio."""
    if isinstance(obj, FunctionType) and collector.istestfunction(obj, name):
        inner = obj.hypothesis.inner_test if hasattr(obj, "hypothesis") else obj
        if inspect.iscoroutinefunction(inner):
            pytest.mark.anyio(obj)


# Before pytest applies `-m corpus`.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = {item for item in items if item.get_closest_marker("sampled") and not is_in_sample(item.name)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
    for item in items:
        if "corpus_folder" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.corpus)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


_MOST_AT_HAND = planning._MOST_AT_HAND
_SWAPPED = os.environ.get("ORCSTREAM_TEST_WAYS") == "swapped"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Choose the way in which small files are read."""
    is_short = bool(zlib.crc32(item.nodeid.encode()) & 1) is not _SWAPPED
    planning._MOST_AT_HAND = _MOST_AT_HAND if is_short else -1


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # pytest's own last collection tells what nobody closed


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Whatever did not run is named, with the reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    lines = not_run_lines((one.nodeid, one.longrepr[2].removeprefix("Skipped: ")) for one in skipped)
    for line in lines:
        terminalreporter.write_line(line)


@pytest.fixture(scope="module", autouse=True)
def small_heap() -> None:
    """What is there before a module's tests is left alone by the collector until the session ends.

    Thousands of tests and all that they import make a full collection cost a third of a second, and some
    tests ask for one after every turn of the event loop. What a test makes is collected as ever.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def corpus_folder() -> Path:
    folder = corpus_place.root()
    if folder is None:
        not_here(f"{corpus_place.VARIABLE} is not set: it names a folder of foreign files")
    return folder


@pytest.fixture(scope="session")
def java() -> None:
    """The Java judge can be used, or somebody said that it need not."""
    if os.environ.get("ORCSTREAM_WITHOUT_JAVA") == "1":
        not_here("ORCSTREAM_WITHOUT_JAVA=1")
    problem = java_orc.missing()
    assert problem is None, problem
