"""Schemas, rows, files and tables for tests, drawn at random or built by hand."""
