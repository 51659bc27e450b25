"""Web servers."""
