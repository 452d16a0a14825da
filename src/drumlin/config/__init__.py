"""Kafka's configuration keys: their types, defaults, limits, and where values come from."""
