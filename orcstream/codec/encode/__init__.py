"""Column encoders: vectors to streams, with statistics and bloom filters."""
