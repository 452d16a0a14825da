"""Fetching ahead for all partitions of a consumer, in bounded memory, and decoding."""
