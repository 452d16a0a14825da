"""The state of a topic at a point: the last record of every key, and whether that is exact."""
