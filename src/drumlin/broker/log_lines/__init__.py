"""The lines of a server's own log: their forms, and the counting of those that repeat.

Not the logs of partitions: those are `storage/log`.
"""
