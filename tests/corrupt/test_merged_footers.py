"""Stripes whose footers are damaged are not copied, by whatever way they go."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import orcstream
from orcstream import blocking
from orcstream.errors import CorruptStripe
from orcstream.writer import merge as merging
from tests.generators.footers import DAMAGES, three_stripes, with_footer
from tests.servers.s3_proxy import S3_KINDS
from tests.servers.sink_stores import make_store


@pytest.fixture
def sound() -> bytes:
    return three_stripes()


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
