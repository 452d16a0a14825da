"""Rows of PostgreSQL as JSON: what the text of each type becomes, and objects of columns. Pure."""
