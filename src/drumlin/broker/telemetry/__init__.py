"""Metrics that clients push (KIP-714): who is asked for which, and what was received.

`ClientTelemetry` is the whole; the other files are its parts, and pure.
"""
