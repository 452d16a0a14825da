"""Errors of `capture_query`; after each, nothing of its run is in the topic."""


class QueryRefused(ValueError):
    """The query's rows are no table of keys and values."""


class QueryOvertaken(RuntimeError):
    """Another run into the topic has begun, or has written, in the meantime."""
