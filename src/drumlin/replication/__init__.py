"""The state of replicas: leadership, in-sync replicas, high watermark; following another broker.

`partition.py` is a replica that leads, `followed_partition.py` one that follows; both are plain
synchronous code. `fetchers.py` and what it uses do a follower's awaiting.
"""
