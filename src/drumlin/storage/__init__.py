"""Partition logs on disk, in Kafka's formats: blocking I/O, never asyncio.

From the bottom up: `files`, one log dir (`directory`), `segment`, `producers`, one `log`, its
`recovery`, the `replacement` of its files, and `all_logs` of the broker.
"""
