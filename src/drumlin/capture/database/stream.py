"""A slot's replication stream: receives frames, and confirms LSNs, so that WAL can be removed."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from drumlin.capture.database import connections, failover, silence, waiting
from drumlin.capture.database.catalog import quoted
from drumlin.capture.database.connections import failure_of
from drumlin.capture.database.failover import Identity
from drumlin.capture.database.silence import Silence
from drumlin.capture.errors import DatabaseLost, DatabaseRefused
from drumlin.capture.messages.frames import Keepalive, parse_frame, status_update
from drumlin.capture.messages.lsn import lsn_text
from drumlin.capture.messages.runs import RUN_BYTES, RUN_MESSAGES, TOGETHER
from drumlin.capture.sockets import is_readable, is_writable

if TYPE_CHECKING:
    import psycopg

_WHOLE: Final = "proto_version '1'"
#: The option with which the server streams large transactions instead of spilling them to disk.
_STREAMING: Final = "proto_version '2', streaming 'on'"
_STREAMING_FROM: Final = 140000
_COMMIT: Final = ord("C")
#: The timeout in milliseconds; 0: the server does not check whether its reader is alive.
_TIMEOUT: Final = "SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'"


class Stream:
    """The changes of one slot from an LSN on. Must be closed."""

    def __init__(
        self, url: str, identity: Identity, slot: str, publication: str, start_lsn: int
    ) -> None:
        """
        `identity`: the server on which `start_lsn` was checked: with several hosts in the URL, this
        connection may reach another one, which is refused.

        Raises:
            DatabaseLost, DatabaseRefused: the slot cannot be read.
        """
        self._connection: psycopg.Connection[Any] = failover.connect(url, identity)
        self._connector = self._connection.pgconn
        self._flushed_lsn = self._received_lsn = start_lsn
        self._ahead: bytes | Keepalive | None = None  # received, but not returned yet
        self._is_cut = False  # whether the last run was full before its transaction ended
        self._silence: Silence | None = None  # since a keepalive was requested
        self._error: type[Exception] = connections.loaded().Error
        try:
            self._silence_s = _silence_of(self._connection)
            self._begin(slot, publication)
        except BaseException:
            self.close()
            raise
        self._connector.nonblocking = 1

    def _begin(self, slot: str, publication: str) -> None:
        psycopg = connections.loaded()
        named = quoted(publication).replace("'", "''")
        is_streaming = self._connection.info.server_version >= _STREAMING_FROM
        statement = (
            f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {lsn_text(self._flushed_lsn)} "
            f"({_STREAMING if is_streaming else _WHOLE}, publication_names '{named}')"
        )
        result = waiting.unchecked_result_of(
            self._connection, statement, lambda: False, silence.SLOW_S
        )
        if result is None:
            raise DatabaseLost("the server has ended the connection")
        if result.status != psycopg.pq.ExecStatus.COPY_BOTH:
            raise failure_of(psycopg.errors.error_from_result(result), self._connection)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()

    def read(self, wait_s: float) -> list[bytes] | Keepalive | None:
        """The received messages, in order, or a keepalive; None: none arrived within `wait_s`.

        Messages of rows, and of the begin and end of transactions, are returned together, if many
        up to the end of a transaction. Each other message is returned alone.

        Raises:
            DatabaseLost, DatabaseRefused: the stream has ended, or the server does not answer.
        """
        found, self._ahead = self._ahead, None
        try:
            if found is None:
                found = self._next(wait_s)
            return self._run(found) if isinstance(found, bytes) else found
        except self._error as error:
            raise failure_of(error, self._connection) from None

    def _run(self, payload: bytes) -> list[bytes]:
        """The message, and the received ones after it that can be converted together with it.

        A full run ends with a transaction, unless the transaction is too large for one run. Its
        rest is then a run of its own, so that its end is noticed.
        """
        payloads = [payload]
        if not payload or payload[0] not in TOGETHER:
            return payloads
        size_bytes = len(payload)
        while True:
            is_end = payload[0] == _COMMIT
            if is_end and (self._is_cut or len(payloads) >= RUN_MESSAGES):
                self._is_cut = False
                return payloads
            if len(payloads) >= 2 * RUN_MESSAGES or size_bytes >= RUN_BYTES:
                self._is_cut = not is_end
                return payloads
            found = self._next(0)
            if not isinstance(found, bytes) or not found or found[0] not in TOGETHER:
                self._ahead = found
                return payloads
            payload = found
            size_bytes += len(payload)
            payloads.append(payload)

    def _next(self, wait_s: float) -> bytes | Keepalive | None:
        """The next frame; None: none came within `wait_s`."""
        size, frame = self._connector.get_copy_data(1)
        if size == 0:
            deadline = time.monotonic() + wait_s
            while size == 0:
                left_s = max(deadline - time.monotonic(), 0)
                if not is_readable(self._connector.socket, left_s):
                    if self._silence is not None:
                        self._silence.check()
                    return None
                self._connector.consume_input()
                self._silence = None
                size, frame = self._connector.get_copy_data(1)
        if size < 0:
            self._raise_end()
        found = parse_frame(frame)
        if isinstance(found, Keepalive):
            self._received_lsn = max(self._received_lsn, found.end_lsn)
        return found

    def confirm(self, lsn: int, wants_answer: bool = False) -> None:
        """Tell the server that everything before this LSN is received and durable.

        `wants_answer`: whether the server should send a keepalive at once.

        Raises:
            DatabaseLost: the message cannot be sent.
        """
        if wants_answer and self._silence is None:
            self._silence = Silence(self._silence_s)
        self._flushed_lsn = max(self._flushed_lsn, lsn)
        now_us = time.time_ns() // 1000
        answer = status_update(self._received_lsn, self._flushed_lsn, now_us, wants_answer)
        try:
            self._connector.put_copy_data(answer)
            while self._connector.flush():
                is_writable(self._connector.socket, 1)
        except self._error as error:
            raise DatabaseLost(" ".join(str(error).split())) from None

    def _raise_end(self) -> NoReturn:
        psycopg = connections.loaded()
        result = self._connector.get_result()
        if result is not None and result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            error = psycopg.errors.error_from_result(result)
            failure = failure_of(error, self._connection)
            if isinstance(failure, DatabaseRefused):
                raise failure
            raise DatabaseLost(str(failure))
        raise DatabaseLost("the server has ended the stream")


def _silence_of(connection: psycopg.Connection[Any]) -> float:
    """The limit of a server's silence after a request for a keepalive.

    While the server decodes a large transaction, it may answer as late as after half of its own
    timeout, and before PostgreSQL 15 perhaps not at all: a higher timeout helps in both cases.
    """
    result = waiting.result_of(connection, _TIMEOUT, lambda: False, silence.QUICK_S)
    timeout_s = int(result.get_value(0, 0)) / 1000
    return max(silence.QUICK_S, timeout_s or silence.SLOW_S)
