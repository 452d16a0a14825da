"""One partition's log: append, read, flush, retention, truncation. Must not load or repair it."""
