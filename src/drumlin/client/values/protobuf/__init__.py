"""Protobuf messages in the bytes of records, and their schemas as text."""
