"""Offsets that groups have committed, and pending offsets of open transactions."""
