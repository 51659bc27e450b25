"""Any bytes in: rows, or `FormatError` or `Unsupported` with the URL, out; in bounded time and memory.

Run as ``python -m tests.fuzz.fuzz_read SECONDS``: with atheris where it is installed (coverage guides
it), else by damaging seeds at random. Seeds are files of pyarrow, pyorc and the builder, the odd legal
ones, encrypted ones, which are opened with their keys, and some of the corpus where ORCSTREAM_CORPUS is set.
Some of those are damaged before they are encrypted, and in some files metadata go to extremes (neither with
atheris). What is damaged is merged under new keys, too. What breaks the invariant is kept beside the message.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.generators import seeds
from tests.generators.encrypting import SECRETS, CountedKeys
from tests.generators.extremes import extreme
from tests.generators.relocking import harmed
from tests.reference import corpus_place
from tests.reference.errors import Malformed
from tests.reference.odd_files import FILES
from tests.support import hostile

LARGEST_SEED = 100_000


def collect(folder: Path) -> tuple[list[bytes], list[bytes]]:
    """The seeds, and those of them that are encrypted with keys that we have."""
    found = list(seeds.write_all(folder).values()) + [make().data for make in FILES.values()]
    if (corpus := corpus_place.root()) is not None:
        found += [(corpus / name).read_bytes() for name in seeds.CORPUS_SEEDS]
    return [data for data in found if len(data) <= LARGEST_SEED], list(seeds.encrypted().values())


def check(path: Path) -> None:
    hostile.run(path, CountedKeys())
    hostile.run_merge(path, CountedKeys(), rekey=True)


def splice(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """A piece of another seed in place of one's own: lengths stay right, meanings do not."""
    size = rng.randint(1, 60)
    at, source = rng.randrange(len(data)), rng.randrange(len(other))
    return data[:at] + other[source : source + size] + data[at + size :]


def damaged(found: list[bytes], encrypted: list[bytes], rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return harmed(rng.choice(encrypted), SECRETS, rng)
    data = rng.choice(found)
    if rng.random() < 0.3:
        with suppress(Malformed, IndexError):  # odd files are none that a reader of tails knows
            return extreme(data, rng)
    if rng.random() < 0.2 and data:
        data = splice(data, rng.choice(found) or b"\0", rng)
    return hostile.mutate(data, rng)


def run_random(seconds: float, path: Path, found: list[bytes], encrypted: list[bytes], seed: int) -> int:
    """Damage seeds until the time is up; answers how many inputs were tried."""
    stop = time.monotonic() + seconds
    tried = 0
    while time.monotonic() < stop:
        rng = random.Random(seed + tried)
        path.write_bytes(damaged(found, encrypted, rng))
        try:
            check(path)
        except BaseException:
            kept = Path(tempfile.gettempdir()) / f"orcstream-fuzz-{seed + tried}.orc"
            kept.write_bytes(path.read_bytes())
            sys.stderr.write(f"input {seed + tried} breaks the invariant; it is kept as {kept}\n")
            raise
        tried += 1
    return tried


def run_atheris(seconds: float, path: Path, found: list[bytes]) -> None:
    import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]  # not for every platform

    folder = path.parent / "corpus"
    folder.mkdir()
    for number, data in enumerate(found):
        (folder / str(number)).write_bytes(data)

    def one_input(data: bytes) -> None:
        path.write_bytes(data)
        check(path)

    atheris.instrument_all()
    atheris.Setup(
        [sys.argv[0], f"-max_total_time={int(seconds)}", "-rss_limit_mb=2000", str(folder)], one_input
    )
    atheris.Fuzz()


def main(arguments: list[str]) -> int:
    seconds = float(arguments[0]) if arguments else 60.0
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "fuzzed.orc"
        found, encrypted = collect(Path(name))
        if importlib.util.find_spec("atheris") is not None:
            run_atheris(seconds, path, found)
            return 0
        seed = random.SystemRandom().randrange(1 << 40)
        tried = run_random(seconds, path, found, encrypted, seed)
    peak = hostile.peak_bytes() >> 20
    sys.stdout.write(f"{tried} damaged files from seed {seed}: the invariant holds; peak {peak} MiB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
