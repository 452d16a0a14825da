"""Asynchronous connections to brokers: versions, routing, retries, raw record batches.

Serves the columnar client and followers alike; knows nothing of records or of Arrow.
"""
