"""Deleted topics, from their nodes to the time when every broker has forgotten them."""
