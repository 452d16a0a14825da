"""Restoring a topic's state, or its records up to a point, into a new topic."""
