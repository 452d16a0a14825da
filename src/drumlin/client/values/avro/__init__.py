"""Avro values in the bytes of records, and Avro schemas."""
