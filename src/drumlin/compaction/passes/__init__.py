"""The two passes of a cleaning over chunks of a log, as kernels, with the map and the filters.

Passes decide which records survive, by the compaction rule, and must never open a file.
"""
