"""Asynchronous connections to brokers: version negotiation, routing, retries, record batches.

Used by the client, between brokers, and by code built on these. Reads the headers of batches, but
no records, and must never import Arrow.
"""
