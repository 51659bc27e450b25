"""Streams of a stripe: compression chunks and run lengths, both ways."""
