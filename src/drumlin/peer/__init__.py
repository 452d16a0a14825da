"""Asynchronous connections to brokers: versions, routing, retries, raw record batches.

Serves the client and what is built on it; knows neither records nor Arrow.
"""
