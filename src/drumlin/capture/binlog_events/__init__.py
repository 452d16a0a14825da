"""MariaDB's binlog as bytes: events, rows, the values in them, and positions. Pure."""
