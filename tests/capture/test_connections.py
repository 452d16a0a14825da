"""What ends a connection, or a try to make one: which errors pass, and which stay until mended."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from capture.captured import Captured
from capture.load import SCHEMA, TABLES, transact
from capture.test_killed import check_nothing_twice, load
from drumlin.capture.database import catalog, connections, waiting
from drumlin.capture.database.connections import failure_of
from drumlin.capture.errors import DatabaseLost, DatabaseRefused
from drumlin.capture.running import supervised
from rig.depth import so_many
from rig.servers.postgres import Postgres

_AT = 'connection failed: connection to server at "127.0.0.1", port 5432 failed: '
_SEVERAL = "connection failed: {1}\nMultiple connection attempts failed. All failures were:\n"
_SEVERAL += "- host: 'a', port: '1', hostaddr: '127.0.0.1': connection failed: {0}\n"
_SEVERAL += "- host: 'b', port: '1', hostaddr: '127.0.0.2': connection failed: {1}"
_REFUSED = 'connection to server at "127.0.0.1", port 1 failed: FATAL:  role "x" does not exist'
_AWAY = 'connection to server at "127.0.0.2", port 1 failed: Connection refused'


@pytest.mark.parametrize(
    "text",
    [
        "FATAL:  terminating connection due to administrator command",
        "FATAL:  terminating connection because of crash of another server process",
        "FATAL:  the database system is starting up",
        "FATAL:  the database system is not yet accepting connections\nDETAIL:  Consistent...",
        "FATAL:  the database system is shutting down",
        "FATAL:  the database system is in recovery mode",
        "FATAL:  sorry, too many clients already",
        "FATAL:  remaining connection slots are reserved for non-replication superuser connections",
        'FATAL:  too many connections for role "password authentication failed"',
        "FATAL:  number of requested standby connections exceeds max_wal_senders (currently 8)",
        'FATAL:  database "shop" is not currently accepting connections',
        "FATAL:  canceling authentication due to timeout",
        "FATAL:  could not open file \"base/5/2601\": Too many open files",
        "FATAL:  out of memory\nDETAIL:  Failed on request of size 25.",
        "FATAL:  query_wait_timeout",  # of a pooler
        "FATAL:  Verbindung wird abgebrochen aufgrund von Anweisung des Administrators",
        "server closed the connection unexpectedly\n\tThis probably means the server terminated",
        "SSL SYSCALL error: EOF detected",
        "SSL error: unexpected eof while reading",
        "Connection refused\n\tIs the server running on that host and accepting connections?",
        "timeout expired",
        "",
    ],
)  # fmt: skip
def test_a_try_to_connect_that_passes(text: str) -> None:
    error = failure_of(psycopg.OperationalError(_AT + text), None)
    assert isinstance(error, DatabaseLost)
    assert str(error) == " ".join((_AT + text).split())


@pytest.mark.parametrize(
    "text",
    [
        'FATAL:  password authentication failed for user "shop"',
        'FATAL:  Peer authentication failed for user "shop"',
        'FATAL:  no pg_hba.conf entry for host "127.0.0.1", user "x", database "y", no encryption',
        'FATAL:  pg_hba.conf rejects connection for host "127.0.0.1", user "x", database "y"',
        'FATAL:  role "shop" does not exist',
        'FATAL:  role "shop" is not permitted to log in',
        'FATAL:  database "shop" does not exist',
        'FATAL:  permission denied for database "shop"\nDETAIL:  User does not have CONNECT...',
        "FATAL:  must be superuser or replication role to start walsender",
        "FATAL:  permission denied to start WAL sender\nDETAIL:  Only roles with...",
        'FATAL:  unrecognized configuration parameter "nonsense"',
        'FATAL:  invalid value for parameter "work_mem": "abc"',
        'FATAL:  1 kB is outside the valid range for parameter "work_mem" (64 kB .. 2147483647 kB)',
        'FATAL:  parameter "wal_level" cannot be changed without restarting the server',
        "FATAL:  invalid command-line argument for server process: -z\nHINT:  Try...",
        "fe_sendauth: no password supplied",
        "server does not support SSL, but SSL was required",
        "SSL error: certificate verify failed",
        'server certificate for "x" does not match host name "y"',
        'root certificate file "/x" does not exist\nEither provide the file...',
        'authentication method requirement "scram-sha-256" failed: server did not complete',
        "channel binding required, but server authenticated client without channel binding",
    ],
)
def test_a_try_to_connect_that_is_refused(text: str) -> None:
    error = failure_of(psycopg.OperationalError(_AT + text), None)
    assert isinstance(error, DatabaseRefused)
    before_libpq_14 = failure_of(psycopg.OperationalError(f"connection failed: {text}"), None)
    assert isinstance(before_libpq_14, DatabaseRefused)


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        (_REFUSED, _REFUSED, True),
        (_AWAY, _REFUSED, False),
        (_REFUSED, _AWAY, False),
        (_REFUSED, "connection timeout expired", False),
    ],
)
def test_one_of_several_servers_may_come_back(first: str, second: str, is_refused: bool) -> None:
    error = failure_of(psycopg.OperationalError(_SEVERAL.format(first, second)), None)
    assert isinstance(error, DatabaseRefused) is is_refused


def test_options_that_libpq_rejects() -> None:
    for option in ("sslmode=hm", "connect_timeout=soon", "port=99999", "gssencmode=require"):
        with pytest.raises(DatabaseRefused):
            connections.connect(f"host=127.0.0.1 {option} dbname=x")


@contextmanager
def _answering(*answers: bytes) -> Iterator[int]:
    """A server of one connection, with an answer to each message; an empty one closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError), listener.accept()[0] as connection:
                for answer in answers:
                    connection.recv(10_000)
                    if not answer:
                        return
                    connection.sendall(answer)
                connection.recv(10_000)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def _fatal(severity: str, state: str, text: str) -> bytes:
    fields = f"S{severity}\0VFATAL\0C{state}\0M{text}\0\0".encode()
    return b"E" + struct.pack(">i", 4 + len(fields)) + fields


@pytest.mark.parametrize(
    ("answer", "is_refused"),
    [
        (_fatal("FATAL", "57P01", "terminating connection due to administrator command"), False),
        (_fatal("SCHWERWIEGEND", "57P03", "das Datenbanksystem startet"), False),
        (_fatal("FATAL", "3D000", 'database "x" does not exist'), True),
        (b"R" + struct.pack(">ii", 8, 3), True),  # asks for a password, and there is none
        (b"", False),
    ],
)
def test_as_libpq_tells_it(
    answer: bytes, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSFILE", "/dev/null")
    with _answering(answer) as port:
        url = f"host=127.0.0.1 port={port} dbname=x user=y sslmode=disable gssencmode=disable"
        with pytest.raises(DatabaseRefused if is_refused else DatabaseLost):
            connections.connect(url)


def test_an_end_that_is_announced_passes() -> None:
    """Before the connection is seen to be closed, and whatever the reason is."""
    is_idle = b"Z" + struct.pack(">ic", 5, b"I")
    welcome = b"R" + struct.pack(">ii", 8, 0) + is_idle
    end = _fatal("FATAL", "25P04", "terminating connection due to transaction timeout")
    with _answering(welcome, end + is_idle) as port:
        url = f"host=127.0.0.1 port={port} dbname=x user=y sslmode=disable gssencmode=disable"
        with contextlib.closing(connections.connect(url)) as connection:
            with pytest.raises(DatabaseLost, match="transaction timeout"):
                catalog.run(connection, "SELECT 1")
            assert not connection.closed


def test_what_ends_a_connection_passes(postgres: Postgres) -> None:
    """Whatever it is: here, a limit that somebody has set for idle transactions."""
    url = postgres.url()
    with contextlib.closing(connections.connect(url)) as connection:
        catalog.run(connection, "SET idle_in_transaction_session_timeout = '10ms'")
        catalog.run(connection, "BEGIN")
        with pytest.raises(DatabaseLost):
            catalog.run(connection, "SELECT pg_sleep(0.1)")
            threading.Event().wait(0.1)
            catalog.run(connection, "SELECT 1")
    with contextlib.closing(connections.connect(url)) as connection:
        with pytest.raises(DatabaseRefused):
            catalog.run(connection, "SELECT 1 / 0")
        with pytest.raises(DatabaseLost):
            catalog.run(connection, "SELECT pg_cancel_backend(pg_backend_pid())")
        with pytest.raises(DatabaseLost):
            catalog.run(connection, "SELECT pg_terminate_backend(pg_backend_pid())")
        with pytest.raises(DatabaseLost):
            catalog.run(connection, "SELECT 1")


def test_rows_that_do_not_come(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may not be silent for long; whoever takes the rows may be slow."""
    monkeypatch.setattr(waiting, "SLOW_S", 0.8)
    large = "SELECT repeat('x', 100000) FROM generate_series(1, 3)"  # the server sends it at once
    slow = f"{large} UNION ALL SELECT pg_sleep({{}})::text"
    with contextlib.closing(connections.connect(postgres.url())) as connection:
        statement = f"COPY ({slow.format(1.5)}) TO STDOUT"
        lines = waiting.copied_lines(connection, statement, lambda: False)
        assert len(next(lines)) > 100000
        threading.Event().wait(1.0)
        assert len(list(lines)) == 3
        lines = waiting.copied_lines(
            connection, f"COPY ({slow.format(60)}) TO STDOUT", lambda: False
        )
        with pytest.raises(DatabaseLost, match="silent"):
            list(lines)


def test_backends_that_end_at_any_moment(
    captured: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it begins, reads the tables, and follows: it tries again, and ends when it is told."""
    monkeypatch.setattr(supervised, "_PAUSE_MAX_S", 0.3)
    captured.run(*SCHEMA)
    source = random.Random(7)
    with captured.connect() as connection:
        for _ in range(60):
            transact(connection, source)
        with load(captured, 7):
            for _ in range(so_many(3, 100)):
                captured.start_here()
                process = captured.process
                for _ in range(so_many(12, 30)):
                    threading.Event().wait(source.choice((0.005, 0.05, 0.2)) * source.random())
                    how = source.choice(("pg_terminate_backend", "pg_cancel_backend"))
                    which = source.choice(("walsender", "client backend"))
                    connection.execute(
                        f"SELECT {how}(pid) FROM pg_stat_activity WHERE backend_type = '{which}'"
                        " AND application_name = 'drumlin capture' AND datname = current_database()"
                    )
                assert process is not None and process.poll() is None, captured.said()
                assert captured.stop() == 0
    captured.start_here()
    captured.await_all()
    captured.check_equal(*TABLES)
    for table in TABLES:
        check_nothing_twice(captured, table)
