"""Logs of tables, as small records of which each is written by one program."""
