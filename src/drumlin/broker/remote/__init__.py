"""Requests to other brokers: markers, share states, ends of logs."""
