"""Unmodified clients of others against a running server."""
