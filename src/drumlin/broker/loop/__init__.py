"""Services around the event loop: threads, periodic work, pending answers, garbage collection, and
the watch for long turns.

Knows neither requests nor partitions.
"""
