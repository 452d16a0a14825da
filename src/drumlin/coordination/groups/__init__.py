"""Groups: who belongs to one, what it has committed, and the topic that remembers both.

`shard.py` and the state machines in the folders (`classic`) decide and never await;
`coordinator.py` does the awaiting. Nothing here knows sockets, logs on disk or messages of the
protocol.
"""
