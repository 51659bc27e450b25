"""Who says what is committed: a table's own log, or Hive's metastore."""
