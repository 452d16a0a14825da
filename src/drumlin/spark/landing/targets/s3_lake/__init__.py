"""A lake of Parquet files in S3, and how S3 is reached."""
