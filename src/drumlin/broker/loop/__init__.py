"""What the event loop runs with: threads, periodic work, pending answers, garbage collection, and
the watch for long turns.

Knows neither requests nor partitions.
"""
