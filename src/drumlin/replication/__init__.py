"""Replication: leadership, in-sync replicas, high watermarks, and fetching from leaders.

`partition.py` is a replica that leads, `followed_partition.py` one that follows; both are plain
synchronous code. A follower's asynchronous code is in `fetchers.py` and the modules that it uses.
"""
