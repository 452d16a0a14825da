"""The groups of one partition of `__consumer_offsets`, of whatever kind. Never awaits."""
