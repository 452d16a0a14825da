"""Captures a MariaDB: a consistent snapshot, then its binlog. The other rooms know no MariaDB."""
