"""Errors of `capture_query`. A run that ends with one has written nothing to the topic."""


class QueryRefused(ValueError):
    """The query's rows do not have one value for each key."""


class QueryOvertaken(RuntimeError):
    """Another run into the topic has begun, or has written, in the meantime."""
