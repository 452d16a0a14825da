"""Rows of PostgreSQL as JSON: the text of each type converted, and columns as objects. Pure."""
