"""The rows of tables as they were when the slot was made: everything before it, nothing after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.database import catalog, waiting
from drumlin.capture.database.catalog import FoundTable, quoted
from drumlin.capture.database.connections import DatabaseLost, DatabaseRefused
from drumlin.capture.messages.lsn import parse_lsn
from drumlin.capture.messages.pgoutput import Row
from drumlin.capture.values.copy_text import parse_line

if TYPE_CHECKING:
    import psycopg


#: Storage of tables and partitions: in this snapshot, and now. A rewritten one looks empty here.
_REWRITTEN: Final = """
SELECT c.oid::regclass::text FROM pg_class c
WHERE (c.oid::int8 = ANY(%s)
    OR (c.relispartition AND pg_partition_root(c.oid)::oid::int8 = ANY(%s)))
  AND c.relfilenode <> 0 AND c.relfilenode IS DISTINCT FROM pg_relation_filenode(c.oid)
"""


def create_slot(
    replication: psycopg.Connection[Any], slot: str, should_stop: Callable[[], bool]
) -> tuple[int, str]:
    """Make the slot; returns its LSN, and the snapshot of just then.

    It waits for the transactions that are open. The snapshot can be taken over as long as nothing
    else is done by this connection.

    Raises:
        DatabaseLost, DatabaseRefused: there is none.
        Stopped: it was told to.
    """
    statement = f"CREATE_REPLICATION_SLOT {quoted(slot)} LOGICAL pgoutput EXPORT_SNAPSHOT"
    result = waiting.result_of(replication, statement, should_stop)
    _, lsn, snapshot, _ = (result.get_value(0, each) or b"" for each in range(4))
    return parse_lsn(lsn.decode()), snapshot.decode()


def take_over(
    connection: psycopg.Connection[Any],
    snapshot: str,
    tables: Sequence[FoundTable],
    should_stop: Callable[[], bool],
) -> list[FoundTable]:
    """From now on this connection sees the database as it was then, and nobody alters the tables.

    Returns:
        The tables as they were then: columns may have come and gone while the slot was waited for.

    Raises:
        DatabaseLost: they were altered since; the snapshot does not show what they were.
        Stopped: it was told to.
    """
    waiting.result_of(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", should_stop)
    waiting.result_of(connection, f"SET TRANSACTION SNAPSHOT '{snapshot}'", should_stop)
    # A policy must not hide rows that the stream would show: it is an error then.
    catalog.run(connection, "SET LOCAL row_security = off")
    oids = [each.oid for each in tables]
    then = {each.oid: each for each in catalog.tables(connection)}
    for before in tables:
        found = then.get(before.oid)
        if found is None or found._replace(columns=before.columns) != before:
            raise DatabaseLost(f"table {before.full_name} was altered while the slot was made")
    held = [then[oid] for oid in oids]
    named = ", ".join(catalog.only(each) for each in held)
    waiting.result_of(connection, f"LOCK TABLE {named} IN ACCESS SHARE MODE", should_stop)
    for (name,) in catalog.rows(connection, _REWRITTEN, (oids, oids)):
        raise DatabaseLost(f"table {name} was rewritten or truncated after the slot was made")
    return held


def read_table(
    connection: psycopg.Connection[Any], table: FoundTable, should_stop: Callable[[], bool]
) -> Iterator[Row]:
    """All of its rows, as text, one of them in memory at a time."""
    columns = ", ".join(quoted(name) for name, _ in table.columns)
    named = catalog.only(table)
    query = f"SELECT {columns} FROM {named}"  # noqa: S608  quoted
    return copied(connection, table, query, should_stop)


def copied(
    connection: psycopg.Connection[Any],
    table: FoundTable,
    query: str,
    should_stop: Callable[[], bool],
) -> Iterator[Row]:
    """The rows of a query of this table, as text. They are to be taken to their end.

    Raises:
        DatabaseLost, DatabaseRefused: it cannot be read.
        Stopped: it was told to.
    """
    try:
        for line in waiting.copied_lines(connection, f"COPY ({query}) TO STDOUT", should_stop):
            yield parse_line(str(line, "utf-8"))
    except UnicodeDecodeError as error:
        why = f"table {table.full_name} has text that is not UTF-8: {error}"
        raise DatabaseRefused(why) from None
