"""A compacted topic as a table: the plan, the reads, the shuffle and the merge."""
