"""Connections to ZooKeeper, and the offsets of old high-level consumers there.

Used by brokers, and by clients with offsets in ZooKeeper. Must not know a cluster's metadata.
"""
