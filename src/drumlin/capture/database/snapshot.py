"""The rows of tables as of the slot's creation: every change before it, none after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from drumlin.capture.database import catalog
from drumlin.capture.database.catalog import FoundTable, quoted
from drumlin.capture.database.connections import DatabaseRefused, failure_of, loaded
from drumlin.capture.messages.lsn import parse_lsn
from drumlin.capture.messages.pgoutput import Row

if TYPE_CHECKING:
    import psycopg


def create_slot(replication: psycopg.Connection[Any], slot: str) -> tuple[int, str]:
    """Create the slot; returns its LSN, and the name of the snapshot exported at that LSN.

    The snapshot can be imported until this connection runs another command.

    Raises:
        DatabaseLost, DatabaseRefused: the slot was not created.
    """
    result = replication.pgconn.exec_(
        f"CREATE_REPLICATION_SLOT {quoted(slot)} LOGICAL pgoutput EXPORT_SNAPSHOT".encode()
    )
    psycopg = loaded()
    if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
        error = psycopg.errors.error_from_result(result)
        raise failure_of(error, replication)
    _, lsn, snapshot, _ = (result.get_value(0, each) or b"" for each in range(4))
    return parse_lsn(lsn.decode()), snapshot.decode()


def take_over(connection: psycopg.Connection[Any], snapshot: str) -> None:
    """Begin a transaction on this connection that sees the database as in the snapshot."""
    catalog.run(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    catalog.run(connection, f"SET TRANSACTION SNAPSHOT '{snapshot}'")
    # A row security policy would hide rows that the stream contains: this makes it an error.
    catalog.run(connection, "SET LOCAL row_security = off")


def read_table(connection: psycopg.Connection[Any], table: FoundTable) -> Iterator[Row]:
    """All rows of a table, as text, with only a few in memory at a time."""
    columns = ", ".join(quoted(name) for name, _ in table.columns)
    only = "" if table.kind == "p" else "ONLY "
    name = f"{quoted(table.schema)}.{quoted(table.name)}"
    statement = f"COPY (SELECT {columns} FROM {only}{name}) TO STDOUT"  # noqa: S608  quoted
    try:
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in copy.rows():
                yield list(row)
    except loaded().Error as error:
        raise failure_of(error, connection) from None
    except UnicodeDecodeError as error:
        why = f"table {table.full_name} has text that is not UTF-8: {error}"
        raise DatabaseRefused(why) from None
