"""Topics as tables of a PostgreSQL."""
