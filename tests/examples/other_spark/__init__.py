"""What lands is read by an older Spark, with the runtime of the table format."""
