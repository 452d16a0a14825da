"""One segment of a log, its sparse indexes, and the list of a log's segments.

Knows nothing of offsets that are to be assigned, nor of producers.
"""
