"""Stripes whose footers are damaged are not copied, by whatever way they go."""

from __future__ import annotations

from pathlib import Path

import pytest

from orcstream import blocking
from orcstream.errors import CorruptStripe
from tests.generators.footers import DAMAGES, three_stripes, with_footer


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
