"""The side of PostgreSQL: what it must have, its catalog, a snapshot, and the stream. Blocks."""
