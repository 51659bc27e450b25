"""Types, their text, and statistics of columns: what a file says of its contents."""
