"""Topics as keys of a Redis."""
