"""What Hive computes from rows: bucket hashes and row keys."""
