"""The one error of the reference: bytes that the specification does not allow."""

from __future__ import annotations


class Malformed(Exception):
    """The bytes are no legal ORC."""
