"""What the properties of kernels share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orcstream.codec.streams import _decode_values
from orcstream.codec.vectors import _vector


@pytest.fixture(scope="module", params=["simd", "scalar"])
def simd(request: pytest.FixtureRequest) -> Iterator[None]:
    """With what the processor has for many values at a time, where it has it, and without."""
    for kernels in (_decode_values, _vector):
        kernels.use_simd(wanted=request.param == "simd")
    yield
    for kernels in (_decode_values, _vector):
        kernels.use_simd(wanted=True)
