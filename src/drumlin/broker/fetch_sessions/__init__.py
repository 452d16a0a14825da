"""What a fetch reads of a partition, and incremental sessions (KIP-227)."""
