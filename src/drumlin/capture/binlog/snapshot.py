"""Reads tables as of one position in the binlog: with every change before it, and none after it.

MariaDB reports the binlog position of a transaction's snapshot. So only the tables' definitions are
locked, and only the privilege to read is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.binlog import catalog
from drumlin.capture.binlog.catalog import FoundTable
from drumlin.capture.binlog.connections import failure_of, loaded, quoted, rows
from drumlin.capture.binlog_events.charsets import Charsets
from drumlin.capture.binlog_events.column_types import selected
from drumlin.capture.database.waiting import Stopped
from drumlin.capture.errors import DatabaseChanged, DatabaseLost

if TYPE_CHECKING:
    import pymysql

_LOOK_ROWS: Final = 1000


def begin(connection: pymysql.Connection[Any]) -> str:
    """Begin a transaction with a snapshot of this moment; returns its position, as GTIDs.

    Raises:
        DatabaseLost, DatabaseRefused: the server does not report the position.
    """
    rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    place = {
        name.decode().lower(): value
        for name, value in rows(connection, "SHOW STATUS LIKE 'binlog\\_snapshot\\_%%'")
    }
    file, position = place["binlog_snapshot_file"], int(place["binlog_snapshot_position"])
    ((gtids,),) = rows(connection, "SELECT BINLOG_GTID_POS(%s, %s)", (file.decode(), position))
    if gtids is None:
        raise DatabaseLost("the binlog of the snapshot was removed before its place was known")
    if rows(connection, "XA RECOVER"):
        raise DatabaseChanged(
            "XA transactions are prepared, whose rows would be missing (XA RECOVER shows them): "
            "XA COMMIT or XA ROLLBACK them first"
        )
    return str(gtids.decode())


def take_over(
    connection: pymysql.Connection[Any], tables: Sequence[FoundTable]
) -> list[FoundTable]:
    """Lock the tables' definitions until the transaction ends; returns the tables as they are now.

    Raises:
        DatabaseLost: a table was altered or dropped since the snapshot.
    """
    for each in tables:
        # This fails if the table was altered since the snapshot.
        rows(connection, f"SELECT 1 FROM {_name(each)} LIMIT 1")  # noqa: S608
    found = catalog.described(connection, tables)
    before = {each.full_name: each for each in tables}
    if len(found) != len(tables) or any(before[each.full_name] != each for each in found):
        raise DatabaseChanged("tables were altered while the snapshot began")
    return found


def read_table(
    connection: pymysql.Connection[Any],
    table: FoundTable,
    charsets: Charsets,
    should_stop: Callable[[], bool],
) -> Iterator[list[str | None]]:
    """The rows of a table, in the order of its columns.

    Raises:
        DatabaseLost, DatabaseRefused: the table cannot be read.
        Stopped: the capture was asked to stop. The connection is closed.
    """
    columns = [selected(each.type, charsets) for each in table.columns]
    shown = ", ".join(
        one.expression.format(quoted(each.name))
        for each, one in zip(table.columns, columns, strict=True)
    )
    shows = [each.show for each in columns]
    statement = f"SELECT {shown} FROM {_name(table)}"  # noqa: S608
    for count, row in enumerate(_streamed(connection, statement)):
        if count % _LOOK_ROWS == 0 and should_stop():
            raise Stopped
        yield [
            None if value is None else show(value)
            for show, value in zip(shows, row)  # noqa: B905  as many as were selected
        ]


def _streamed(connection: pymysql.Connection[Any], statement: str) -> Iterator[Sequence[Any]]:
    """The rows of a statement, one by one, without holding all of them in memory."""
    from pymysql.cursors import SSCursor

    cursor = SSCursor(connection)
    is_complete = False
    try:
        cursor.execute(statement)
        while (found := cursor.fetchone()) is not None:
            yield found
        is_complete = True
        cursor.close()
    except loaded().Error as error:
        raise failure_of(error) from None
    finally:
        if not is_complete:
            # Otherwise the driver would read all remaining rows.
            connection._force_close()


def _name(table: FoundTable) -> str:
    return f"{quoted(table.schema)}.{quoted(table.name)}"
