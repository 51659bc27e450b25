"""How much memory a write takes, in bytes: the default, and the least that is enough."""

__all__ = ["DEFAULT_MEMORY_LIMIT", "LEAST_MEMORY_LIMIT"]

DEFAULT_MEMORY_LIMIT = 256 << 20
LEAST_MEMORY_LIMIT = 16 << 20
