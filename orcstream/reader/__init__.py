"""One file, read."""
