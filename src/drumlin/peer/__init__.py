"""Asynchronous connections to brokers: versions, routing, retries, raw record batches.

Serves the client and what is built on it. Of records it knows the headers of batches, no more;
it must never import Arrow.
"""
