"""Coordinators: each has its state in a compacted topic, and in memory where it leads a partition.

A coordinator is a folder: pure state machines and record formats, a shard (the state of one
partition), and one file that awaits. What coordinators share is beside the folders.
"""
