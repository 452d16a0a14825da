"""MariaDB's binlog as bytes: events, rows, their values, and positions. Pure."""
