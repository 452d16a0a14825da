"""The two passes of a cleaning over chunks of a log, as kernels, and what they fill and pass by.

They decide which records survive, by the compaction rule, and must never open a file.
"""
