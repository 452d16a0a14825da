"""Answers about what keeps its progress in the cluster: sinks, captures, states and followers.

They tell what records and committed offsets say, and nothing else: whether a process is running,
or how far its source is ahead, is told only where the cluster knows it.
"""
