"""Coordinators: each has its state in a compacted topic, and in memory where it leads a partition.

Each coordinator has a folder: pure state machines and record formats, a shard (the state of one
partition), and one asynchronous file. Code that coordinators share is beside the folders.
"""
