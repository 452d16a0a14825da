"""Deletion of topics, from the removal of their znodes until the deletion can be forgotten."""
