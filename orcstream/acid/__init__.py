"""Hive's transactional tables: read as of a snapshot, written, compacted."""
