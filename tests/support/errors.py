"""What an error says of itself as attributes, for tests that must not depend on its words."""

from __future__ import annotations

import pytest

from orcstream.errors import Unsupported

__all__ = ["raises"]


def raises(expected: type[Unsupported], *, reason: str) -> pytest.RaisesExc[Unsupported]:
    """`pytest.raises` for an error with this `reason`."""
    return pytest.raises(expected, check=lambda error: error.reason == reason)
