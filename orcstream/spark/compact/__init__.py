"""Records of files that were merged."""
