"""Stripes whose footers are damaged are not copied, by whatever way they go."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import orcstream
from orcstream import blocking
from orcstream._proto.orc_proto import StripeFooter
from orcstream.errors import CorruptStripe
from orcstream.plan.tail import Tail, plan_tail
from orcstream.spark.access import Access
from orcstream.spark.compact.compacting import Compaction
from orcstream.spark.jobs.compaction import compact_with
from orcstream.spark.write.target import Folder
from orcstream.writer import merge as merging
from tests.servers.s3_proxy import S3_KINDS
from tests.servers.sink_stores import make_store


def with_footer(data: bytes, stripe: int, change: Callable[[bytes], bytes]) -> bytes:
    """A file with another footer of one stripe, as long as the one that it has."""
    tail = plan_tail(memoryview(data), len(data))
    assert isinstance(tail, Tail)
    place = tail.footer.stripes[stripe].footer_range
    footer = change(data[place.start : place.stop])
    assert len(footer) == place.length
    return data[: place.start] + footer + data[place.stop :]


def longer_stream(footer: bytes) -> bytes:
    message = StripeFooter.FromString(footer)
    last = message.streams[-1]
    last.length = (1 << (last.length.bit_length() + 6) // 7 * 7) - 1  # the longest in as many bytes
    return message.SerializeToString()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "no message": lambda footer: b"\xff" * len(footer),
    "zeros": lambda footer: bytes(len(footer)),
    "a stream that is too long": longer_stream,
}


@pytest.fixture
def sound() -> bytes:
    """Three stripes without compression."""
    one, three = io.BytesIO(), io.BytesIO()
    blocking.write(one, [(i, f"t{i}") for i in range(10)], "struct<a:int,s:string>", compression="none")
    blocking.merge([one.getvalue()] * 3, three)
    return three.getvalue()


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("part_bytes", [8 << 20, 300, 64], ids=["one piece", "pieces", "cut footers"])
def test_a_stripe_with_a_damaged_footer_is_not_copied(
    sound: bytes, tmp_path: Path, damage: str, part_bytes: int
) -> None:
    broken = tmp_path / "broken.orc"
    broken.write_bytes(with_footer(sound, 1, DAMAGES[damage]))
    target = tmp_path / "all.orc"
    with pytest.raises(CorruptStripe) as caught:
        blocking.merge([sound, str(broken)], target, io_options={"part_bytes": part_bytes})
    assert (caught.value.url, caught.value.stripe) == (str(broken), 1)
    assert not target.exists()
    blocking.merge([sound, sound], target, io_options={"part_bytes": part_bytes})
    with blocking.open(target) as file:
        assert len(file.stripes) == 6


@pytest.mark.parametrize("kind", S3_KINDS)
@pytest.mark.parametrize("damage", DAMAGES)
async def test_nor_does_the_store_copy_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, damage: str
) -> None:
    store = make_store(kind, tmp_path)
    monkeypatch.setattr(merging, "STORE_COPY_BYTES", 1 << 20)
    numbers = np.random.default_rng(1).integers(0, 1 << 62, 800_000)
    buffer = io.BytesIO()
    async with orcstream.create(buffer, "struct<n:bigint>", compression="none", stripe_bytes=1 << 20) as out:
        await out.write({"n": numbers})
    data = buffer.getvalue()
    store.put("sound.orc", data)
    store.put("broken.orc", with_footer(data, 3, DAMAGES[damage]))
    with pytest.raises(CorruptStripe) as caught:
        await orcstream.merge(
            [store.url_of("sound.orc"), store.url_of("broken.orc")],
            store.url_of("all.orc"),
            storage_options=store.options,
            sink_options=store.tuned(),
        )
    assert (caught.value.url, caught.value.stripe) == (store.url_of("broken.orc"), 3)
    assert store.seen("all.orc") is None


def test_a_compaction_leaves_such_files_as_they_are(sound: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.orc").write_bytes(sound)
    (tmp_path / "b.orc").write_bytes(with_footer(sound, 1, DAMAGES["zeros"]))
    (group,) = compact_with(
        lambda label, units, work: [work(unit) for unit in units],  # noqa: ARG005
        Folder(str(tmp_path), Access()),
        Compaction(how="copy"),
    ).groups
    assert group.how == "left"
    assert sorted(path.name for path in tmp_path.glob("*.orc")) == ["a.orc", "b.orc"]
