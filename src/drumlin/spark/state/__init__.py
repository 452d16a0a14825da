"""A compacted topic as the table that it stands for: how it is planned, read, shuffled and
merged.
"""
