"""Partition logs on disk, in Kafka's formats: blocking I/O, no asyncio."""
