"""Groups: who belongs to one, what it has committed, and the topic that remembers both.

`group.py`, `offsets.py` and `group_shard.py` decide and never await; `group_coordinator.py`
does the awaiting. Nothing here knows sockets, logs on disk or messages of the protocol.
"""
