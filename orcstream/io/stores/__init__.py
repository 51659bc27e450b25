"""One package for each kind of store."""
