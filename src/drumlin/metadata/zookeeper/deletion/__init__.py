"""Deletion of topics, from their znodes to the time when their deletion can be forgotten."""
