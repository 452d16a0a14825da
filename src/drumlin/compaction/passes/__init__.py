"""The two passes of a cleaning over chunks of a log, with the offset map and the filters.

Passes decide which records survive, by the compaction rule, and must never open a file.
"""
