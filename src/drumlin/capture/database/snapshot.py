"""The rows of tables as they were when the slot was made: everything before it, nothing after."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.database import catalog
from drumlin.capture.database.catalog import FoundTable, quoted
from drumlin.capture.database.connections import DatabaseLost, DatabaseRefused, failure_of, loaded
from drumlin.capture.messages.lsn import parse_lsn
from drumlin.capture.messages.pgoutput import Row

if TYPE_CHECKING:
    import psycopg


_LISTEN_S: Final = 0.25
#: SQLSTATE of what another capture of this name can bring about, and what passes with it.
_OTHERS_DOING: Final = ("42710", "22023", "42704")  # a slot that is there, a snapshot that is gone
#: Storage of tables and partitions: in this snapshot, and now. A rewritten one looks empty here.
_REWRITTEN: Final = """
SELECT c.oid::regclass::text FROM pg_class c
WHERE (c.oid::int8 = ANY(%s)
    OR (c.relispartition AND pg_partition_root(c.oid)::oid::int8 = ANY(%s)))
  AND c.relfilenode <> 0 AND c.relfilenode IS DISTINCT FROM pg_relation_filenode(c.oid)
"""


class Stopped(Exception):
    """The capture was told to stop. Everything that was committed stays."""


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
    result = _awaited(replication, statement, should_stop)
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
    _awaited(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", should_stop)
    _awaited(connection, f"SET TRANSACTION SNAPSHOT '{snapshot}'", should_stop)
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
    _awaited(connection, f"LOCK TABLE {named} IN ACCESS SHARE MODE", should_stop)
    for (name,) in catalog.rows(connection, _REWRITTEN, (oids, oids)):
        raise DatabaseLost(f"table {name} was rewritten or truncated after the slot was made")
    return held


def _awaited(
    connection: psycopg.Connection[Any], statement: str, should_stop: Callable[[], bool]
) -> Any:
    """The result of a statement that may have to wait for others."""
    psycopg, connector = loaded(), connection.pgconn
    try:
        connector.send_query(statement.encode())
        while connector.flush():
            select.select([], [connector.socket], [], _LISTEN_S)
        while connector.is_busy():
            if should_stop():
                connector.get_cancel().cancel()
                raise Stopped
            if select.select([connector.socket], [], [], _LISTEN_S)[0]:
                connector.consume_input()
        result = connector.get_result()
        while connector.get_result() is not None:
            pass
    except psycopg.Error as error:
        raise failure_of(error, connection) from None
    fine = (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK)
    if result is None or result.status not in fine:
        if result is None:
            raise DatabaseLost("the server does not answer")
        error = psycopg.errors.error_from_result(result)
        if error.sqlstate in _OTHERS_DOING:
            raise DatabaseLost(" ".join(str(error).split()))
        raise failure_of(error, connection)
    return result


def read_table(connection: psycopg.Connection[Any], table: FoundTable) -> Iterator[Row]:
    """All of its rows, as text, a few of them in memory at a time."""
    columns = ", ".join(quoted(name) for name, _ in table.columns)
    named = catalog.only(table)
    statement = f"COPY (SELECT {columns} FROM {named}) TO STDOUT"  # noqa: S608  quoted
    try:
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in copy.rows():
                yield list(row)
    except loaded().Error as error:
        raise failure_of(error, connection) from None
    except UnicodeDecodeError as error:
        why = f"table {table.full_name} has text that is not UTF-8: {error}"
        raise DatabaseRefused(why) from None
