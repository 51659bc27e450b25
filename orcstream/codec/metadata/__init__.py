"""Postscript, footers and indexes: bytes to checked values, and back."""
