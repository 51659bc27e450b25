"""Arrow, numpy and Python values, as vectors of an ORC schema."""
