"""What runs on an event loop: threads, cleanup that is not cancelled, shared clients."""
