"""Batch and streaming queries, and their tasks, which read offsets into Spark's columns."""
