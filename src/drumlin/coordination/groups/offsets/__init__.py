"""Offsets that groups have committed, and those of transactions that are still open."""
