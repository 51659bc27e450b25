"""Fetching, decoding and shaping the rows of one file."""
