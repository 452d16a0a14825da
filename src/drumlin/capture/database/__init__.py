"""PostgreSQL's side of a capture: requirements, catalog, snapshot, and stream. Blocks."""
