"""JSON objects in the bytes of records."""
