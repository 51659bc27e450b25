"""HDFS, through its own protocol and over HTTP."""
