"""How much memory a write takes, in bytes: the default, and the least that is enough."""

DEFAULT_MEMORY_LIMIT = 256 << 20
LEAST_MEMORY_LIMIT = 16 << 20
