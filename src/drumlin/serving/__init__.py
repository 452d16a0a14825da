"""Topics kept as tables in the stores of others: the last value of every key, and offsets with it.

A store says where its table stands; the group's committed offsets only show the progress.
"""
