"""Paths and contents of znodes, and the operations by which mutations write them. Pure."""
