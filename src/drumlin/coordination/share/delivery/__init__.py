"""Share partitions: which records of a partition are with which member of a share group.

Plain state machines, told what was fetched, what was answered and what time it is.
"""
