"""Bytes to values and back: everything that knows the format."""
