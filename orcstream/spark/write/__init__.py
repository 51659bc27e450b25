"""Writing files from Spark, in batches."""
