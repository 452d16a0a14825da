"""MariaDB's captures: a consistent snapshot, then the binlog. Of PostgreSQL it knows nothing."""
