"""Loading logs at a start: checking them, and repairing the damage of a crash."""
