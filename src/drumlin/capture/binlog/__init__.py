"""MariaDB's captures: a consistent snapshot, then the binlog. Independent of PostgreSQL."""
