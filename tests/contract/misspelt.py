"""What type checkers must say of options: mypy reads this file with all others, and nobody runs it.

Each line that is wrong is marked with the error that it must be. A mark for which there is no error any more
is one itself (`warn_unused_ignores`, which is part of mypy's `strict`), so `make lint` fails.
"""

from __future__ import annotations

import orcstream
from orcstream import blocking


def right() -> tuple[object, ...]:
    return (
        blocking.open("a", storage_options={}).read(columns=["a"]),
        blocking.read("a", columns=["a"], tail=b""),
        blocking.write("a", data=[], compression="zstd"),
        blocking.create("a", "struct<a:int>", overwrite=False).write([]),
        blocking.ingest("a-{number}", max_rows=3, compression="zstd").files[0].url,
        blocking.merge(["a"], "b", keys=None).length,
        blocking.open("a").take([1], columns=["a"]).num_rows,
        blocking.dataset("a", keys=None).count(case_sensitive=False),
        orcstream.create("a", "struct<a:int>", growing=True),
    )


def wrong() -> tuple[object, ...]:
    return (
        blocking.open("a", storageoptions={}),  # type: ignore[call-arg]
        blocking.open("a").read(column=["a"]),  # type: ignore[call-arg]
        blocking.open("a").raed(),  # type: ignore[attr-defined]
        blocking.read("a", column=["a"]),  # type: ignore[call-arg]
        blocking.write("a", data=[], compresion="zstd"),  # type: ignore[call-arg]
        blocking.create("a", "struct<a:int>", overwrit=False),  # type: ignore[call-arg]
        blocking.ingest("a-{number}", max_row=3),  # type: ignore[call-arg]
        blocking.merge(["a"], "b", key=None),  # type: ignore[call-arg]
        orcstream.ingest("a-{number}", compresion="zstd"),  # type: ignore[call-arg]
        orcstream.create("a", compresion="zstd"),  # type: ignore[call-arg]
        orcstream.dataset("a", partition="hive"),  # type: ignore[call-arg]
        blocking.open("a").take([1], where=None),  # type: ignore[call-arg]
        blocking.open("a").read(batch_rows="1"),  # type: ignore[arg-type]
        blocking.dataset("a").batches(rows=range(3)),  # type: ignore[call-arg]
    )
