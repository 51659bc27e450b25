"""Other libraries, reached from this one; each module needs its extra."""
