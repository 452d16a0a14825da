"""Reads of a partition by a fetch, and incremental fetch sessions (KIP-227)."""
