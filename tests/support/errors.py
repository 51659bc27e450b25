"""What tests ask of errors: facts for programs, which no change of wording touches."""

from __future__ import annotations

from collections.abc import Callable

from orcstream.errors import Unsupported


def because(reason: str) -> Callable[[Unsupported], bool]:
    """For ``pytest.raises(Unsupported, check=...)``: whether the error has this reason."""
    return lambda error: error.reason == reason
