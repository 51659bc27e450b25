"""What the properties of kernels share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orcstream.codec._simd import use_simd


@pytest.fixture(scope="module", params=["simd", "scalar"])
def simd(request: pytest.FixtureRequest) -> Iterator[None]:
    """With what the processor has for many values at a time, where it has it, and without."""
    use_simd(request.param == "simd")
    yield
    use_simd(True)
