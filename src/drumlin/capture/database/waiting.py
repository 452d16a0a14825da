"""Runs statements that may take long, and cancels them when the capture is asked to stop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.database.connections import failure_of, loaded
from drumlin.capture.database.silence import SLOW_S, Silence
from drumlin.capture.errors import DatabaseChanged, DatabaseLost
from drumlin.capture.sockets import is_readable, is_writable

if TYPE_CHECKING:
    import psycopg

_LISTEN_S: Final = 0.25
_CANCEL_S: Final = 5
#: SQLSTATEs of errors caused by changes since the catalog was read. By another capture of this
#: name: the slot exists already, or the snapshot is gone. By anyone: a table, column or schema is
#: gone.
_OTHERS_DOING: Final = ("42710", "22023", "42704", "42P01", "42703", "3F000")


class Stopped(Exception):
    """The capture was asked to stop. Everything that was committed stays."""


def result_of(
    connection: psycopg.Connection[Any],
    statement: str,
    should_stop: Callable[[], bool],
    silence_s: float | None = None,
) -> Any:
    """The result of a statement; for COPY, as soon as rows can be read.

    `silence_s`: the limit of the server's silence; None: no limit but TCP's keepalives, for
    statements that wait for other transactions.

    Raises:
        DatabaseLost, DatabaseRefused: the statement failed.
        Stopped: the capture was asked to stop; the statement is cancelled.
    """
    result = unchecked_result_of(connection, statement, should_stop, silence_s)
    if result is not None and result.status == loaded().pq.ExecStatus.COPY_OUT:
        return result
    return _checked(connection, result)


def unchecked_result_of(
    connection: psycopg.Connection[Any],
    statement: str,
    should_stop: Callable[[], bool],
    silence_s: float | None,
) -> Any:
    """The result, which may be an error, or None if the server has left.

    Raises:
        DatabaseLost, DatabaseRefused: the connection failed.
        Stopped: the capture was asked to stop; the statement is cancelled.
    """
    psycopg, connector = loaded(), connection.pgconn
    status = psycopg.pq.ExecStatus
    try:
        connector.send_query(statement.encode())
        while connector.flush():
            is_writable(connector.socket, _LISTEN_S)
        silence = None if silence_s is None else Silence(silence_s)
        while connector.is_busy():
            _listen(connection, should_stop, silence)
        result = connector.get_result()
        if result is None or result.status not in (status.COPY_OUT, status.COPY_BOTH):
            while connector.get_result() is not None:
                pass
    except psycopg.Error as error:
        raise failure_of(error, connection) from None
    return result


def copied_lines(
    connection: psycopg.Connection[Any], statement: str, should_stop: Callable[[], bool]
) -> Iterator[memoryview]:
    """The lines of a COPY to the client.

    Raises:
        DatabaseLost, DatabaseRefused: the statement failed.
        Stopped: the capture was asked to stop; the statement is cancelled.
    """
    psycopg, connector = loaded(), connection.pgconn
    result_of(connection, statement, should_stop, SLOW_S)
    silence: Silence | None = None
    try:
        while True:
            size, line = connector.get_copy_data(1)
            if size > 0:
                silence = None  # the caller may consume lines slowly
                yield line
            elif size == 0:
                silence = silence or Silence(SLOW_S)
                _listen(connection, should_stop, silence)
            else:
                break
        result = connector.get_result()
        while connector.get_result() is not None:
            pass
    except psycopg.Error as error:
        raise failure_of(error, connection) from None
    _checked(connection, result)


def _listen(
    connection: psycopg.Connection[Any], should_stop: Callable[[], bool], silence: Silence | None
) -> None:
    """Read the available data, or wait for data for a moment."""
    if should_stop():
        with contextlib.suppress(loaded().Error):
            connection.cancel_safe(timeout=_CANCEL_S)
        raise Stopped
    if is_readable(connection.pgconn.socket, _LISTEN_S):
        connection.pgconn.consume_input()
        if silence is not None:
            silence.heard()
    elif silence is not None:
        silence.check()


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
