"""Coordinators: the state of each is in a compacted topic, and in memory for partitions led here.

Each coordinator has a folder: pure state machines and record formats, a shard (the state of one
partition), and one asynchronous file. Code that coordinators share is beside the folders.
"""
