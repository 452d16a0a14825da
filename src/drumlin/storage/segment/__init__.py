"""One segment of a log, its sparse indexes, and the list of a log's segments.

Must know nothing of the assignment of offsets, nor of producers.
"""
