"""Arrow's schemas and its C data interface, out and in."""
