"""A program that reads and writes local files where the system lacks what Windows and macOS lack.

Run by `test_other_systems`. The calls are taken away before the package is imported; and, as on Windows, what
is open can be neither removed nor replaced. The first argument is an empty folder.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import pkgutil
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

MISSING_CALLS = """
    fchmod fchown fdatasync fork getuid lockf posix_fadvise posix_fallocate pread preadv pwrite pwritev
    sched_getaffinity register_at_fork RWF_NOWAIT O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK
""".split()
OTHERS = ("orcstream.integrations", "orcstream.spark")
MISSING_MODULES = ("fcntl", "grp", "pwd", "resource", "termios")


def leave() -> None:
    """What other systems do not have is gone."""
    for name in MISSING_CALLS:
        delattr(os, name)
    for name in MISSING_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # so that an import of it fails
    for name in ("unlink", "remove", "rename", "replace"):
        setattr(os, name, _refusing(getattr(os, name)))
    # It removes by descriptors of folders, which other systems do not know.
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    if hasattr(shutil, "_rmtree_impl"):  # Python 3.14 has chosen when it was imported
        shutil._rmtree_impl = shutil._rmtree_unsafe  # type: ignore[attr-defined]


def _refusing(call: Callable[..., None]) -> Callable[..., None]:
    def refuse(*paths: Any, **options: Any) -> None:
        assert all(value is None for value in options.values()), "descriptors of folders"
        held = set()
        for number in os.listdir("/proc/self/fd"):  # noqa: PTH208
            try:
                held.add(str(Path(f"/proc/self/fd/{number}").readlink()))
            except FileNotFoundError:
                continue  # that of the listing
        for path in paths:
            if str(Path(path).resolve()) in held:
                raise PermissionError(13, "it is open", str(path))
        call(*paths)

    return refuse


def import_all() -> int:
    """Every module, but those for other libraries, which are what these need."""
    import orcstream

    names = [one.name for one in pkgutil.walk_packages(orcstream.__path__, "orcstream.", onerror=_raise)]
    chosen = [name for name in names if not name.startswith((*OTHERS, "orcstream.__main__"))]
    for name in chosen:
        importlib.import_module(name)
    return len(chosen)


def _raise(name: str) -> None:
    if not name.startswith(OTHERS):
        raise ImportError(name)


async def use(folder: Path) -> None:
    import orcstream
    from orcstream import acid, col

    path = folder / "a.orc"
    for count in (10, 50_000):  # the second takes the place of the first
        numbers = list(range(count))
        async with orcstream.create(path, "struct<n:bigint>", stripe_bytes=1 << 16) as out:
            await out.write({"n": numbers})
    async with orcstream.open(path) as file:
        many = await asyncio.gather(*(file.take([at]) for at in range(0, count, 4_999)))
        assert [one.to_pylist()[0]["n"] for one in many] == numbers[::4_999]
        assert (await file.read(where=col("n") > count - 3)).num_rows == 2
    try:
        async with orcstream.create(path, "struct<n:bigint>", overwrite=False) as out:
            await out.write({"n": [1]})
        raise AssertionError("it was there")
    except FileExistsError:
        pass

    async with orcstream.create(folder / "b.orc", "struct<n:bigint>", growing=True) as out:
        await out.write({"n": [1, 2]})
        await out.flush()
        async with orcstream.open(folder / "b.orc", follow=True) as file:
            assert file.row_count == 2
    growing = await orcstream.create(folder / "c.orc", "struct<n:bigint>", growing=True)
    await growing.write({"n": [1]})
    await growing.abort()

    async with orcstream.ingest(f"{folder}/in/n={{n}}/{{number}}.orc", "struct<n:int,t:string>") as rows:
        await rows.write([(number % 3, "x") for number in range(30)])
    assert sum(file.row_count for file in rows.files) == 30

    await acid.create_table(str(folder / "table"), "struct<n:bigint>")
    async with acid.open_table(str(folder / "table")) as table:
        async with await table.transaction() as change:
            await change.insert({"n": list(range(100))})
        async with await table.transaction() as change:
            assert await change.delete(col("n") < 10) == 10
    async with acid.open_table(str(folder / "table")) as table:
        await table.compact("major")
        await table.clean(older_than_s=0)
    async with acid.open_table(str(folder / "table")) as table:
        assert (await table.read(columns=[])).num_rows == 90


async def put_aside() -> None:
    """Keys and events that do not fit into memory."""
    from orcstream.acid.compact import sorting
    from tests.acid import test_row_ids, test_sorting

    with pytest.MonkeyPatch.context() as patch:
        test_row_ids.test_many_keys_on_disk(patch)
        patch.setattr(sorting, "_FAN_IN", 2)
        given: list[Any] = [((1, 0, 3 - one % 4), one + 1, 1) for one in range(12)]
        async with aclosing(sorting.EventSorter(test_sorting.SCHEMA, {}, memory_limit=8)) as sorter:
            for first in range(0, 12, 3):
                await sorter.add(test_sorting.events_of(given[first : first + 3], first))
            assert await test_sorting.found_in(sorter) == test_sorting.expected(given)
            assert sorter.spilled_runs > 0


def main() -> None:
    folder = Path(sys.argv[1])
    aside = folder / "aside"
    aside.mkdir()
    leave()
    count = import_all()
    asyncio.run(use(folder))
    tempfile.tempdir = str(aside)
    asyncio.run(put_aside())
    names = sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())
    print(count, [name for name in names if not name.startswith("table")])


if __name__ == "__main__":
    main()
