"""How many cores there are for the process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orcstream.io.loop import system as cores
from orcstream.io.loop.system import core_count, cpu_quota
from orcstream.reader.options import ReadOptions

V2 = "0::/job/step\n"
V1 = "7:cpu,cpuacct:/job\n3:memory:/job\n"


def system(root: Path, groups: str, files: dict[str, str]) -> Path:
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        (V2, {"sys/fs/cgroup/job/step/cpu.max": "150000 100000\n"}, 1.5),
        (V2, {"sys/fs/cgroup/job/step/cpu.max": "max 100000\n"}, None),
        # A group that it belongs to has less.
        (
            V2,
            {"sys/fs/cgroup/job/step/cpu.max": "max 100000", "sys/fs/cgroup/job/cpu.max": "300000 100000"},
            3.0,
        ),
        # In a container: the path is the host's.
        (V2, {"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
        (
            V1,
            {
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            },
            4.0,
        ),
        (
            V1,
            {
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ("", {}, None),
        ("nonsense\n", {"sys/fs/cgroup/cpu.max": "what\n"}, None),
    ],
)
def test_quotas(tmp_path: Path, groups: str, files: dict[str, str], quota: float | None) -> None:
    assert cpu_quota(system(tmp_path, groups, files)) == quota


def test_systems_without_control_groups(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="declared: there is no affinity here")
def test_affinity_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    for quota, count in ((None, 6), (2.0, 2), (0.3, 1), (100.0, 6)):
        monkeypatch.setattr(cores, "_own_quota", lambda quota=quota: quota)
        assert core_count() == count


@pytest.mark.parametrize(("limit", "count"), [(1 << 28, 8), (1 << 27, 4), (16 << 20, 2), (1 << 34, 64)])
def test_decoding_threads_follow_cores_and_memory(
    monkeypatch: pytest.MonkeyPatch, limit: int, count: int
) -> None:
    monkeypatch.setattr("orcstream.reader.options.core_count", lambda: 64)
    assert ReadOptions(memory_limit=limit).threads == count
    assert ReadOptions(memory_limit=limit, decode_threads=3).threads == 3
    monkeypatch.setattr("orcstream.reader.options.core_count", lambda: 1)
    assert ReadOptions(memory_limit=limit).threads == 1
