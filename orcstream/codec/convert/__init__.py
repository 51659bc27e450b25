"""Values of one type as values of another."""
