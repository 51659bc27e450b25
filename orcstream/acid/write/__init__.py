"""Writing a transactional table: statements, streams, files of events."""
