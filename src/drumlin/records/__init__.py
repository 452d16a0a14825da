"""Kafka record batches: bytes <-> headers, records and columns. Pure: no file, no socket."""
