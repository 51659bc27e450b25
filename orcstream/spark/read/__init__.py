"""Reading files in Spark, in batches."""
