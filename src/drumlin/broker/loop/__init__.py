"""The event loop's surroundings: threads, periodic work, later answers, garbage, long turns.

Knows neither requests nor partitions.
"""
