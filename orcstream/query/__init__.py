"""Predicates: as users write them, as text, and bound to a schema."""
