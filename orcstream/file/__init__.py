"""What reading and writing both need of a file: its tail, its keys, its time zones."""
