"""Connections to other brokers, and requests to the transaction coordinators there."""
