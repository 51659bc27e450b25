"""Encrypted columns: streams, keys in the footer, masks."""
