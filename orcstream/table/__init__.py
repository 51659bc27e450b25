"""What tables of many files have in common."""
