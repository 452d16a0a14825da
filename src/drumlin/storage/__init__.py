"""Partition logs on disk, in Kafka's formats: blocking I/O, no asyncio.

From below: `files`, a log dir (`directory`), `segment`, `producers`, one `log`; its `recovery`, the
`replacement` of its files, and `all_logs` of a broker.
"""
