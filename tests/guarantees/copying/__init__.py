"""Exactly-once copy: copiers that are killed take a topic to another, once and in order."""
