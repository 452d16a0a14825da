"""Kafka's record batches: bytes <-> headers, records and columns. Must open no file or socket."""
