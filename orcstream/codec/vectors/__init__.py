"""Values in memory, in Arrow's layout, and what is done with them."""
