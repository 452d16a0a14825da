"""Converts PostgreSQL rows to JSON objects, and the text of each type to a JSON value. Pure."""
