"""A compacted topic as the table that it stands for: now, at a past moment, and as changes."""
