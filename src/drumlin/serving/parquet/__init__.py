"""Topics as folders of Parquet files."""
