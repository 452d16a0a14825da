"""Groups: their members, their committed offsets, and the topic that stores both.

`shard.py` and the state machines in the folders (`classic`) decide and never await;
`coordinator.py` does the awaiting. Nothing here knows sockets, logs on disk or messages of the
protocol.
"""
