"""Connections to other brokers, and requests to their transaction coordinators."""
