"""The groups of all kinds in one partition of `__consumer_offsets`. Never awaits."""
