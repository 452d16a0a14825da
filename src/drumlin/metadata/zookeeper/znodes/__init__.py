"""Paths and contents of znodes, and what a mutation writes into them. Pure."""
