"""Kafka's configuration keys: their types, defaults and limits, and the sources of values."""
