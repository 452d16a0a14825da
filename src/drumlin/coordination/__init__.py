"""Coordinators: each keeps its state in a compacted topic, and in memory for partitions led here.

Each coordinator has a folder with pure state machines and record formats, a shard (the state of one
partition), and one asynchronous file. Code shared by the coordinators is next to the folders.
"""
