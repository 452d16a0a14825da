"""Runs statements that may take long, and cancels them when the capture is asked to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.database.connections import failure_of, loaded
from drumlin.capture.errors import DatabaseChanged, DatabaseLost
from drumlin.capture.sockets import is_readable, is_writable

if TYPE_CHECKING:
    import psycopg

_LISTEN_S: Final = 0.25
#: SQLSTATEs of errors caused by changes since the catalog was read. By another capture of this
#: name: the slot exists already, or the snapshot is gone. By anyone: a table, column or schema is
#: gone.
_OTHERS_DOING: Final = ("42710", "22023", "42704", "42P01", "42703", "3F000")


class Stopped(Exception):
    """The capture was asked to stop. Everything that was committed stays."""


def result_of(
    connection: psycopg.Connection[Any], statement: str, should_stop: Callable[[], bool]
) -> Any:
    """The result of a statement; for COPY, as soon as the rows may be read.

    Raises:
        DatabaseLost, DatabaseRefused: the statement failed.
        Stopped: the capture was asked to stop; the statement is cancelled.
    """
    psycopg, connector = loaded(), connection.pgconn
    status = psycopg.pq.ExecStatus
    try:
        connector.send_query(statement.encode())
        while connector.flush():
            is_writable(connector.socket, _LISTEN_S)
        while connector.is_busy():
            _listen(connector, should_stop)
        result = connector.get_result()
        if result is not None and result.status == status.COPY_OUT:
            return result
        while connector.get_result() is not None:
            pass
    except psycopg.Error as error:
        raise failure_of(error, connection) from None
    return _checked(connection, result)


def copied_lines(
    connection: psycopg.Connection[Any], statement: str, should_stop: Callable[[], bool]
) -> Iterator[memoryview]:
    """The lines of a COPY to the client.

    Raises:
        DatabaseLost, DatabaseRefused: the statement failed.
        Stopped: the capture was asked to stop; the statement is cancelled.
    """
    psycopg, connector = loaded(), connection.pgconn
    result_of(connection, statement, should_stop)
    try:
        while True:
            size, line = connector.get_copy_data(1)
            if size > 0:
                yield line
            elif size == 0:
                _listen(connector, should_stop)
            else:
                break
        result = connector.get_result()
        while connector.get_result() is not None:
            pass
    except psycopg.Error as error:
        raise failure_of(error, connection) from None
    _checked(connection, result)


def _listen(connector: Any, should_stop: Callable[[], bool]) -> None:
    if should_stop():
        connector.get_cancel().cancel()
        raise Stopped
    if is_readable(connector.socket, _LISTEN_S):
        connector.consume_input()


def _checked(connection: psycopg.Connection[Any], result: Any) -> Any:
    psycopg = loaded()
    if result is None:
        raise DatabaseLost("the server does not answer")
    status = psycopg.pq.ExecStatus
    if result.status not in (status.TUPLES_OK, status.COMMAND_OK):
        error = psycopg.errors.error_from_result(result)
        if error.sqlstate in _OTHERS_DOING:
            raise DatabaseChanged(" ".join(str(error).split()))
        raise failure_of(error, connection)
    return result
