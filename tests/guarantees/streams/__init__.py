"""Kafka Streams with exactly_once_v2: a counting application that is killed, and its result."""
