"""Servers that tests start, and proxies in front of them."""
