"""Hive's transactional tables by names alone: snapshots, compactions, write ids."""
