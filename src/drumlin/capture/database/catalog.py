"""Queries of a database's catalog: server, tables and their keys, types, slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from drumlin.capture.database import waiting
from drumlin.capture.database.connections import failure_of, loaded
from drumlin.capture.database.silence import SLOW_S
from drumlin.capture.errors import DatabaseChanged, DatabaseRefused
from drumlin.capture.values.types import TypeInfo, key_kind

if TYPE_CHECKING:
    import psycopg


class Server(NamedTuple):
    """The server, and the user's privileges."""

    version: int  # 150004 is 15.4
    wal_level: str
    slots_max: int
    slot_count: int
    may_replicate: bool
    is_in_recovery: bool
    database: str
    user: str
    system_id: str
    may_create: bool  # publications in the database
    wal_lsn: str
    timeline: int  # 0 on a standby


class FoundTable(NamedTuple):
    """A table of the database."""

    oid: int
    schema: str
    name: str
    kind: str  # r: a table, p: a partitioned one
    identity: str
    is_permanent: bool
    may_select: bool
    is_owner: bool
    key: tuple[str, ...]
    key_kinds: tuple[str, ...]
    #: Names, types and type modifiers of the replicated columns.
    columns: tuple[tuple[str, int, int], ...]

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"


class Slot(NamedTuple):
    """A replication slot."""

    name: str
    plugin: str | None
    database: str | None
    active_pid: int | None
    confirmed_lsn: str | None
    lost_by: str | None  # the reason why its WAL was removed; None: the slot is intact
    is_failover: bool  # whether standbys may have it, too


class Leaf(NamedTuple):
    """A partition that holds rows."""

    root: int  # the oid of its partitioned table
    oid: int
    name: str
    xid: str  # the transaction that last attached the partition, or one above it
    may_select: bool


class Publication(NamedTuple):
    """A publication, with its tables."""

    is_complete: bool  # publishes every kind of change
    is_by_root: bool  # publishes changes of partitions as changes of their root table
    is_owner: bool
    oids: frozenset[int]
    filtered: frozenset[int]  # the tables whose rows or columns it publishes only in part


_SERVER: Final = """
SELECT current_setting('server_version_num')::int, current_setting('wal_level'),
  current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots),
  (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user),
  pg_is_in_recovery(), current_database(), current_user::text,
  (SELECT system_identifier::text FROM pg_control_system()),
  has_database_privilege(current_database(), 'CREATE'),
  CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END::text,
  -- The name of a WAL file begins with its timeline.
  CASE WHEN pg_is_in_recovery() THEN 0
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END
"""
# A deferrable unique constraint, checked at the end of a transaction, cannot identify a row.
_TABLES: Final = """
SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text, c.relreplident::text,
  c.relpersistence = 'p', has_table_privilege(c.oid, 'SELECT'), pg_has_role(c.relowner, 'USAGE'),
  coalesce((SELECT array_agg(ARRAY[a.attname::text, a.atttypid::text, a.atttypmod::text]
    ORDER BY k.place) FROM pg_index i
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k (number, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indrelid = c.oid AND i.indimmediate AND i.indisvalid AND k.place <= i.indnkeyatts
      AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END), '{}'),
  coalesce((SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      AND (a.attgenerated = '' OR (a.attgenerated = 's' AND with_stored.found))), '{}'),
  coalesce((SELECT array_agg(a.atttypid::int8 ORDER BY a.attnum) FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      AND (a.attgenerated = '' OR (a.attgenerated = 's' AND with_stored.found))), '{}'),
  coalesce((SELECT array_agg(a.atttypmod ORDER BY a.attnum) FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      AND (a.attgenerated = '' OR (a.attgenerated = 's' AND with_stored.found))), '{}')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
-- A column of the catalog from PostgreSQL 18 on.
CROSS JOIN (SELECT EXISTS (SELECT 1 FROM pg_publication p WHERE p.pubname = %s
  AND to_jsonb(p) ->> 'pubgencols' = 's') AS found) with_stored
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
  -- Null: it has been dropped meanwhile.
  AND has_table_privilege(c.oid, 'SELECT') IS NOT NULL
ORDER BY 2, 3
"""
_LEAVES: Final = """
SELECT pg_partition_root(c.oid)::oid::int8, c.oid::int8, c.oid::regclass::text,
  (SELECT i.xmin::text FROM pg_inherits i
    WHERE i.inhrelid IN (SELECT relid FROM pg_partition_ancestors(c.oid))
    ORDER BY age(i.xmin) LIMIT 1),
  has_table_privilege(c.oid, 'SELECT')
FROM pg_class c WHERE c.relispartition AND c.relkind IN ('r', 'f')
  -- Null: it has been dropped or detached meanwhile.
  AND pg_partition_root(c.oid) IS NOT NULL AND has_table_privilege(c.oid, 'SELECT') IS NOT NULL
ORDER BY 2
"""
_TYPES: Final = """
SELECT t.oid::int8, t.typname::text, t.typbasetype::int8, coalesce(e.oid, 0)::int8,
  coalesce(e.typdelim, ',')::text, t.typtypmod,
  coalesce((SELECT array_agg(l.enumlabel::text ORDER BY l.enumsortorder) FROM pg_enum l
    WHERE l.enumtypid = t.oid), '{}')
FROM pg_type t LEFT JOIN pg_type e ON e.typarray = t.oid
"""
_SLOT: Final = "SELECT to_jsonb(s)::text FROM pg_replication_slots s WHERE slot_name = %s"
_KEPT_WAL: Final = """
SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
  ELSE pg_current_wal_lsn() END, restart_lsn)::int8
FROM pg_replication_slots WHERE slot_name = %s
"""
_FLUSHED: Final = """
SELECT pg_wal_lsn_diff(now.lsn, '0/0'), (
  SELECT pg_wal_lsn_diff(now.lsn, restart_lsn) FROM pg_replication_slots WHERE slot_name = %s)
FROM (SELECT pg_current_wal_flush_lsn() AS lsn) now
"""
_PUBLICATION: Final = """
SELECT p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate, p.puballtables,
  coalesce((to_jsonb(p) ->> 'pubviaroot')::bool, false), pg_has_role(p.pubowner, 'USAGE'),
  coalesce((SELECT array_agg(r.prrelid::int8) FROM pg_publication_rel r
    WHERE r.prpubid = p.oid), '{}'),
  -- Columns of the catalog from PostgreSQL 15 on.
  coalesce((SELECT array_agg(r.prrelid::int8) FROM pg_publication_rel r WHERE r.prpubid = p.oid
    AND (to_jsonb(r) ->> 'prqual' IS NOT NULL OR to_jsonb(r) ->> 'prattrs' IS NOT NULL)), '{}')
FROM pg_publication p WHERE p.pubname = %s
"""


def server(connection: psycopg.Connection[Any]) -> Server:
    (row,) = rows(connection, _SERVER)
    return Server(*row)


def tables(connection: psycopg.Connection[Any], publication: str) -> list[FoundTable]:
    """All tables that hold rows, by name: a partitioned table as one, without its partitions.

    `publication`: it may publish stored generated columns, from PostgreSQL 18 on.
    """
    found = []
    for *fixed, key, names, oids, modifiers in rows(connection, _TABLES, (publication,)):
        columns = tuple(zip(names, oids, modifiers, strict=True))
        kinds = tuple(key_kind(int(oid), int(modifier)) for _, oid, modifier in key)
        found.append(FoundTable._make((*fixed, tuple(name for name, *_ in key), kinds, columns)))
    return found


def leaves(connection: psycopg.Connection[Any]) -> list[Leaf]:
    """The partitions of all partitioned tables."""
    return [Leaf(*row) for row in rows(connection, _LEAVES)]


def has_table(connection: psycopg.Connection[Any], oid: int) -> bool:
    """Whether there is a table with this oid."""
    return bool(rows(connection, "SELECT 1 FROM pg_class WHERE oid = %s", (oid,)))


def has_older_rows(
    connection: psycopg.Connection[Any], should_stop: Callable[[], bool], leaf: Leaf
) -> bool | None:
    """Whether a partition has rows that were written before it was attached; None: not known.

    Raises:
        DatabaseLost: the server cannot be asked.
        Stopped: the capture was asked to stop.
    """
    if not leaf.may_select:
        return None
    statement = (
        f"SELECT EXISTS (SELECT 1 FROM ONLY {leaf.name} "  # noqa: S608  quoted
        f"WHERE age(xmin) >= age('{int(leaf.xid)}'::xid))"
    )
    try:
        result = waiting.result_of(connection, statement, should_stop, SLOW_S)
    except (DatabaseChanged, DatabaseRefused):  # dropped meanwhile, or a foreign table
        return None
    return bool(result.get_value(0, 0) == b"t")


def types(connection: psycopg.Connection[Any]) -> list[TypeInfo]:
    return [TypeInfo._make((*row, tuple(symbols))) for *row, symbols in rows(connection, _TYPES)]


def slot(connection: psycopg.Connection[Any], name: str) -> Slot | None:
    import json

    for (text,) in rows(connection, _SLOT, (name,)):
        found = json.loads(text)
        # Slots can be lost since PostgreSQL 13; older servers keep all WAL that a slot needs.
        lost_by = found.get("invalidation_reason")
        if lost_by is None and found.get("wal_status") == "lost":
            lost_by = "wal_removed"
        return Slot(
            name,
            found["plugin"],
            found["database"],
            found["active_pid"],
            found["confirmed_flush_lsn"],
            lost_by,
            found.get("failover", False),
        )
    return None


def kept_wal_bytes(connection: psycopg.Connection[Any], name: str) -> int | None:
    """The bytes of WAL that the server keeps for a slot; None: there is no slot, or it is lost."""
    for (found,) in rows(connection, _KEPT_WAL, (name,)):
        return None if found is None else int(found)
    return None


def flushed_and_kept(connection: psycopg.Connection[Any], name: str) -> tuple[int, int | None]:
    """The LSN up to which the server has WAL, and the bytes of it that it keeps for a slot."""
    ((lsn, kept_bytes),) = rows(connection, _FLUSHED, (name,))
    return int(lsn), None if kept_bytes is None else int(kept_bytes)


def publication(connection: psycopg.Connection[Any], name: str) -> Publication | None:
    for is_complete, is_of_all, is_by_root, is_owner, oids, filtered in rows(
        connection, _PUBLICATION, (name,)
    ):
        found = {each.oid for each in tables(connection, name)} if is_of_all else set(oids)
        return Publication(is_complete, is_by_root, is_owner, frozenset(found), frozenset(filtered))
    return None


def rows(
    connection: psycopg.Connection[Any], statement: str, values: Sequence[Any] | None = None
) -> list[tuple[Any, ...]]:
    """The rows that a statement returns.

    Raises:
        DatabaseLost, DatabaseRefused: the statement failed.
    """
    try:
        return connection.execute(statement, values).fetchall()
    except loaded().Error as error:
        raise failure_of(error, connection) from None


def run(connection: psycopg.Connection[Any], statement: str) -> None:
    """Run a statement without a result.

    Raises:
        DatabaseLost, DatabaseRefused: the statement failed.
    """
    try:
        connection.execute(statement)
    except loaded().Error as error:
        raise failure_of(error, connection) from None


def only(table: FoundTable) -> str:
    """The table's SQL expression, which includes partitions but not tables that inherit from it."""
    name = quoted_name(table)
    return name if table.kind == "p" else f"ONLY {name}"


def quoted_name(table: FoundTable) -> str:
    return f"{quoted(table.schema)}.{quoted(table.name)}"


def quoted(name: str) -> str:
    """A name, quoted for an SQL statement."""
    return '"' + name.replace('"', '""') + '"'
