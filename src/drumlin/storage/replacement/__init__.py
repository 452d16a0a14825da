"""New files that take the place of old ones, so that a crash leaves the one or the other.

Segments by cleaned ones; a whole log by one that was fetched anew, or copied to another log dir.
"""
