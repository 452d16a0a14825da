"""Reads tables as of the slot's creation: with every change before it, and none after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.database import catalog, waiting
from drumlin.capture.database.catalog import FoundTable, quoted
from drumlin.capture.database.silence import QUICK_S
from drumlin.capture.errors import DatabaseChanged, DatabaseRefused
from drumlin.capture.messages.lsn import parse_lsn
from drumlin.capture.messages.pgoutput import Row
from drumlin.capture.values.copy_text import parse_line

if TYPE_CHECKING:
    import psycopg


#: Tables and partitions that were rewritten since this snapshot: to the snapshot they look empty.
_REWRITTEN: Final = """
SELECT c.oid::regclass::text FROM pg_class c
WHERE (c.oid::int8 = ANY(%s)
    OR (c.relispartition AND pg_partition_root(c.oid)::oid::int8 = ANY(%s)))
  AND c.relfilenode <> 0 AND c.relfilenode IS DISTINCT FROM pg_relation_filenode(c.oid)
"""


def create_slot(
    replication: psycopg.Connection[Any],
    slot: str,
    is_failover: bool,
    should_stop: Callable[[], bool],
) -> tuple[int, str]:
    """Create the slot; returns its LSN, and the name of the snapshot exported at that LSN.

    `is_failover`: whether standbys synchronize it, which servers can from PostgreSQL 17 on.

    The server first waits for all open transactions. Other connections can import the snapshot
    until this connection runs another command.

    Raises:
        DatabaseLost, DatabaseRefused: the slot was not created.
        Stopped: the capture was asked to stop.
    """
    how = "(SNAPSHOT 'export', FAILOVER)" if is_failover else "EXPORT_SNAPSHOT"
    statement = f"CREATE_REPLICATION_SLOT {quoted(slot)} LOGICAL pgoutput {how}"
    result = waiting.result_of(replication, statement, should_stop)
    _, lsn, snapshot, _ = (result.get_value(0, each) or b"" for each in range(4))
    return parse_lsn(lsn.decode()), snapshot.decode()


def take_over(
    connection: psycopg.Connection[Any],
    snapshot: str,
    publication: str,
    tables: Sequence[FoundTable],
    should_stop: Callable[[], bool],
) -> list[FoundTable]:
    """Begin a transaction in the exported snapshot, and lock the tables.

    Returns:
        The tables as of the snapshot: their columns may have changed while the slot was created.

    Raises:
        DatabaseChanged: tables were rewritten, so the snapshot does not show their rows.
        Stopped: the capture was asked to stop.
    """
    for each in (
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        f"SET TRANSACTION SNAPSHOT '{snapshot}'",
    ):
        waiting.result_of(connection, each, should_stop, QUICK_S)
    # A row security policy would hide rows that the stream contains: with this it is an error.
    catalog.run(connection, "SET LOCAL row_security = off")
    oids = [each.oid for each in tables]
    then = {each.oid: each for each in catalog.tables(connection, publication)}
    for before in tables:
        found = then.get(before.oid)
        if found is None or found._replace(columns=before.columns) != before:
            raise DatabaseChanged(
                f"table {before.full_name} was altered while the slot was created"
            )
    held = [then[oid] for oid in oids]
    named = ", ".join(catalog.only(each) for each in held)
    waiting.result_of(connection, f"LOCK TABLE {named} IN ACCESS SHARE MODE", should_stop)
    for (name,) in catalog.rows(connection, _REWRITTEN, (oids, oids)):
        raise DatabaseChanged(f"table {name} was rewritten or truncated after the slot was created")
    return held


def read_table(
    connection: psycopg.Connection[Any], table: FoundTable, should_stop: Callable[[], bool]
) -> Iterator[Row]:
    """Iterate over all rows of a table, as text, with only a few in memory at a time."""
    columns = ", ".join(quoted(name) for name, *_ in table.columns)
    named = catalog.only(table)
    query = f"SELECT {columns} FROM {named}"  # noqa: S608  quoted
    return copied(connection, table, query, should_stop)


def copied(
    connection: psycopg.Connection[Any],
    table: FoundTable,
    query: str,
    should_stop: Callable[[], bool],
) -> Iterator[Row]:
    """The result rows of a query on this table, as text. The caller must consume all of them.

    Raises:
        DatabaseLost, DatabaseRefused: the rows cannot be read.
        Stopped: the capture was asked to stop.
    """
    try:
        for line in waiting.copied_lines(connection, f"COPY ({query}) TO STDOUT", should_stop):
            yield parse_line(str(line, "utf-8"))
    except UnicodeDecodeError as error:
        why = f"table {table.full_name} has text that is not UTF-8: {error}"
        raise DatabaseRefused(why) from None
