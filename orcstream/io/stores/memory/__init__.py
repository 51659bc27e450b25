"""Bytes in memory."""
