"""A connection to ZooKeeper, and what is kept there for consumers of old.

Knows no metadata of a cluster: brokers, and clients that have offsets in ZooKeeper, build on it.
"""
