"""What went over the topics, kept as Parquet files on any disk or object store."""
