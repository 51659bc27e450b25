"""Many files as one table."""
