"""Asynchronous connections to brokers: version negotiation, routing, retries, record batches.

Used by the client, by brokers among each other, and by whatever is built on them. It reads the
headers of batches, but no records, and must never import Arrow.
"""
