"""Topics kept as tables in external stores: the last value of every key, together with offsets.

The store's own offsets count; the group's committed offsets only show the progress.
"""
