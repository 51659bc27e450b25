"""Compacting and cleaning a transactional table."""
