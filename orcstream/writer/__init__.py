"""Files, written: one, many over time, or many joined."""
