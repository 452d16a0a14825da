"""Writing records: columns, rows in pieces, and one by one; each delivered exactly once."""
