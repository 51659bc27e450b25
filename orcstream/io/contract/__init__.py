"""What a source, a sink, a folder and a growing file must do."""
