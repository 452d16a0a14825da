"""Shared by all tests; helpers that need no fixture live in `rig`."""
