"""Services around the event loop: threads, periodic work, pending answers, garbage collection, and
the detection of long turns.

They know neither requests nor partitions.
"""
