"""Topics as tables in PostgreSQL."""
