"""Asynchronous connections to brokers: versions, routing, retries, raw record batches.

Serves the client and what is built on it. It reads the headers of batches, but no records; it
must never import Arrow.
"""
