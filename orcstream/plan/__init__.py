"""What to read, decided from values alone."""
