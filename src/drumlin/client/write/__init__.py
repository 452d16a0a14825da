"""Writing records: whole tables, rows in pieces, or single records; idempotent by default."""
