"""Column decoders: streams to vectors."""
