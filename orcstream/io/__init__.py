"""Stores: byte ranges in, parts out, and keys; never the format of what is read.

Import from the modules: `source` opens URLs, `scheduler` sends requests, `options` tunes them.
"""
