"""Topics as keys in Redis."""
