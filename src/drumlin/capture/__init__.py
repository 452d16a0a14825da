"""Change subscription: the changes of a PostgreSQL or a MariaDB in compacted topics.

`postgres(url, bootstrap)` and `mariadb(url, bootstrap)` read the tables once and then follow every
committed change, until they are stopped. Each table has a topic with the last row of every key, and
each database transaction is written in one Kafka transaction. A capture needs psycopg or PyMySQL:
`pip install 'psycopg[binary]'` or `pip install pymysql`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from drumlin.capture.binlog.care import MariadbStatus as MariadbStatus
    from drumlin.capture.errors import CaptureError as CaptureError
    from drumlin.capture.errors import CaptureRefused as CaptureRefused
    from drumlin.capture.errors import CaptureReplaced as CaptureReplaced
    from drumlin.capture.running.care import CaptureStatus as CaptureStatus
    from drumlin.client.client import Client
    from drumlin.client.values.registry import SchemaRegistry
    from drumlin.peer.security.security import Security

__all__ = [
    "CaptureError",
    "CaptureRefused",
    "CaptureReplaced",
    "CaptureStatus",
    "MariadbStatus",
    "mariadb",
    "pause",
    "postgres",
    "remove",
    "reread",
    "resume",
    "setup",
    "status",
]
DEFAULT_NAME: Final = "capture"
EVERY_TABLE: Final = ("*",)
_HEARTBEAT_MS: Final = 10_000

Truncation = Literal["stop", "ignore", "tombstones"]
OnMaxWalName = Literal["stop", "drop"]
FormatName = Literal["json", "avro", "debezium", "debezium-schemas", "debezium-avro"]


def __getattr__(name: str) -> Any:
    if name in ("CaptureError", "CaptureRefused", "CaptureReplaced"):
        from drumlin.capture import errors

        return getattr(errors, name)
    if name == "CaptureStatus":
        from drumlin.capture.running.care import CaptureStatus

        return CaptureStatus
    if name == "MariadbStatus":
        from drumlin.capture.binlog.care import MariadbStatus

        return MariadbStatus
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def postgres(
    url: str,
    bootstrap: str,
    *,
    name: str = DEFAULT_NAME,
    tables: Sequence[str] = EVERY_TABLE,
    prefix: str = "",
    partitions: int = -1,
    on_truncate: Truncation = "stop",
    heartbeat_ms: int = _HEARTBEAT_MS,
    max_wal_bytes: int | None = None,
    on_max_wal: OnMaxWalName = "stop",
    format: FormatName = "json",  # noqa: A002
    registry: SchemaRegistry | str | None = None,
    tombstones: bool = True,
    headers: bool = False,
    failover: bool = False,
    metrics_listener: str | None = None,
    stop: threading.Event | None = None,
    tell: Callable[[str], None] | None = None,
    security: Security | Mapping[str, str] | None = None,
) -> None:
    """Capture a database: a snapshot first, then every change, until `stop` is set.

    A missing publication, slot or topic is created. However a capture ended, the next call resumes
    where it stopped: no change is written twice, and none is left out.

    Args:
        url: the database, "postgresql://user@host/database"; a password may be in a PGPASSFILE.
        bootstrap: brokers of the cluster, "host:port[,host:port...]".
        name: the capture's name. The names of slot, publication and transactional id contain it.
        tables: patterns of `schema.table`, with `*` and `?`. Matching tables that are created
            later are added while the capture runs, if they can be captured.
        prefix: the first part of the topics' names: `prefix.schema.table`.
        partitions: the number of partitions of each created topic; -1: the broker's default.
        on_truncate: what to do when a table is truncated: "stop" with an error, "ignore" it and
            keep the rows, or write "tombstones" for all of them.
        heartbeat_ms: how often the position is written while no captured table changes.
        max_wal_bytes: how much WAL the server may keep for the capture's slot, while the capture is
            running or paused; None: no limit.
        on_max_wal: what to do at that limit: "stop" with an error, or "drop" the slot as well.
        format: the form of keys and values: rows as "json" or "avro"; or Debezium's envelope as
            JSON ("debezium"), as JSON with Connect's schemas ("debezium-schemas"), or as Avro
            ("debezium-avro").
        registry: for Avro, the registry of the schemas: its address, or a `SchemaRegistry`.
        tombstones: whether a tombstone follows the envelope of a delete.
        headers: whether records have headers with the LSN, the transaction and the operation.
        failover: have standbys synchronize the slot, so that the capture continues at one that is
            promoted (PostgreSQL 17 or later).
        metrics_listener: HOST:PORT on which to serve metrics to Prometheus; None: do not.
        stop: set it to end the capture; takes up to a second, or until the current commit is done.
        tell: called with a sentence about each event that may matter to an operator.
        security: the settings of connections to the cluster, as in `drumlin.connect`.

    Raises:
        CaptureRefused: the database does not meet the requirements; the message names each
            problem, with the statement that fixes it.
        CaptureReplaced: another capture of this name has started.
        CaptureError: something must be fixed first; the message says what.
        ModuleNotFoundError: psycopg is not installed.
        RegistryUnavailable: the registry cannot be reached.
    """
    from drumlin.capture.running import supervised
    from drumlin.capture.running.session import Session

    options = _options(
        url,
        name,
        tables,
        prefix,
        partitions,
        on_truncate,
        heartbeat_ms,
        stop,
        tell,
        max_wal_bytes,
        on_max_wal,
        format,
        registry,
        tombstones,
        headers,
        failover,
        metrics_listener,
    )
    with _connected(bootstrap, security) as client:
        supervised.run(options, client, Session)


def mariadb(
    url: str,
    bootstrap: str,
    *,
    name: str = DEFAULT_NAME,
    tables: Sequence[str] = EVERY_TABLE,
    prefix: str = "",
    partitions: int = -1,
    on_truncate: Truncation = "stop",
    heartbeat_ms: int = _HEARTBEAT_MS,
    stop: threading.Event | None = None,
    tell: Callable[[str], None] | None = None,
    security: Security | Mapping[str, str] | None = None,
) -> None:
    """Capture a MariaDB by its binlog: a snapshot first, then every change, until `stop` is set.

    However a capture ended, the next call resumes where it stopped: no change is written twice, and
    none is left out.

    Args:
        url: the server, "mariadb://user@host/database"; without a database, tables of all of them
            may be captured. A password may be in MYSQL_PWD.
        tables: patterns of `database.table`, with `*` and `?`. Matching tables that are created
            later are captured from their creation on, if they can be.
        prefix: the first part of the topics' names: `prefix.database.table`.
        on_truncate: what to do when a table is truncated or dropped: "stop" with an error, "ignore"
            it and keep the rows, or write "tombstones" for all of them.
        bootstrap, name, partitions, heartbeat_ms, stop, tell, security: as in `postgres`.

    Raises:
        CaptureRefused: the database does not meet the requirements; the message names each
            problem, with the statement that fixes it.
        CaptureReplaced: another capture of this name has started.
        CaptureError: something must be fixed first; the message says what.
        ModuleNotFoundError: PyMySQL is not installed.
    """
    from drumlin.capture.binlog.session import MariadbSession
    from drumlin.capture.running import supervised

    options = _options(url, name, tables, prefix, partitions, on_truncate, heartbeat_ms, stop, tell)
    with _connected(bootstrap, security) as client:
        supervised.run(options, client, MariadbSession)


def setup(
    url: str,
    *,
    name: str = DEFAULT_NAME,
    tables: Sequence[str] = EVERY_TABLE,
) -> list[str]:
    """Check a database, and create a PostgreSQL's publication if there is none. Captures nothing.

    Args:
        url, name, tables: as in `postgres` or `mariadb`.

    Returns:
        The tables that would be captured.

    Raises:
        CaptureRefused: the database does not meet the requirements; the message names each
            problem, with the statement that fixes it.
        CaptureError: the database cannot be reached.
        ModuleNotFoundError: psycopg or PyMySQL is not installed.
    """
    options = _options(url, name, tables, "", -1, "stop", _HEARTBEAT_MS, None, None)
    if _is_of_mariadb(url):
        from drumlin.capture.binlog import care as of_mariadb

        return of_mariadb.setup(options)
    from drumlin.capture.running import care

    return care.setup(options)


def status(
    url: str,
    bootstrap: str,
    *,
    name: str = DEFAULT_NAME,
    security: Security | Mapping[str, str] | None = None,
) -> CaptureStatus | MariadbStatus:
    """The progress of a capture, and how much WAL a PostgreSQL keeps for it.

    Args:
        url, bootstrap, name, security: as in `postgres` or `mariadb`.

    Raises:
        CaptureError: the database cannot be queried.
        ModuleNotFoundError: psycopg or PyMySQL is not installed.
    """
    with _connected(bootstrap, security) as client:
        if _is_of_mariadb(url):
            from drumlin.capture.binlog import care as of_mariadb

            return of_mariadb.status(url, client, name)
        from drumlin.capture.running import care

        return care.status(url, client, name)


def reread(
    bootstrap: str,
    *,
    tables: Sequence[str],
    name: str = DEFAULT_NAME,
    security: Security | Mapping[str, str] | None = None,
) -> list[str]:
    """Have a capture read tables again, in chunks, while it continues to follow the changes.

    Only the differences are written. A capture that is not running does it at its next start.

    Args:
        bootstrap, name, security: as in `postgres`.
        tables: patterns of `schema.table`, of tables that are captured.

    Returns:
        The tables that will be read.

    Raises:
        CaptureRefused: there is no such capture or table, or its first snapshot is not complete.
    """
    from drumlin.capture.running import care
    from drumlin.client import arguments

    arguments.no_text("tables", tables)
    with _connected(bootstrap, security) as client:
        return care.reread(client, name, tables)


def pause(
    bootstrap: str,
    *,
    name: str = DEFAULT_NAME,
    security: Security | Mapping[str, str] | None = None,
) -> None:
    """Pause a capture until `resume` is called; it stays paused if it is restarted.

    The server keeps the WAL that the topics do not have yet: see `max_wal_bytes` of `postgres`.

    Args:
        bootstrap, name, security: as in `postgres`.

    Raises:
        CaptureRefused: there is no such capture, or its first snapshot is not complete.
    """
    from drumlin.capture.running import care

    with _connected(bootstrap, security) as client:
        care.pause(client, name, True)


def resume(
    bootstrap: str,
    *,
    name: str = DEFAULT_NAME,
    security: Security | Mapping[str, str] | None = None,
) -> None:
    """Have a paused capture continue where it stopped.

    Args:
        bootstrap, name, security: as in `postgres`.

    Raises:
        CaptureRefused: there is no such capture, or its first snapshot is not complete.
    """
    from drumlin.capture.running import care

    with _connected(bootstrap, security) as client:
        care.pause(client, name, False)


def remove(
    url: str,
    bootstrap: str,
    *,
    name: str = DEFAULT_NAME,
    security: Security | Mapping[str, str] | None = None,
) -> list[str]:
    """Remove everything a capture has created, except the tables' topics.

    A capture of a PostgreSQL must not be running; a running capture of a MariaDB ends.

    Args:
        url, bootstrap, name, security: as in `postgres` or `mariadb`.

    Returns:
        A sentence for each thing that was removed.

    Raises:
        CaptureRefused: the capture is running.
        CaptureError: the database refuses.
        ModuleNotFoundError: psycopg is not installed.
    """
    with _connected(bootstrap, security) as client:
        if _is_of_mariadb(url):
            from drumlin.capture.binlog import care as of_mariadb

            return of_mariadb.remove(client, name)
        from drumlin.capture.running import care

        return care.remove(url, client, name)


def _is_of_mariadb(url: str) -> bool:
    from drumlin.capture.binlog import connections

    return connections.is_of_mariadb(url)


@contextmanager
def _connected(bootstrap: str, security: Security | Mapping[str, str] | None) -> Iterator[Client]:
    from drumlin.client.client import connect

    with connect(bootstrap, client_id="drumlin-capture", security=security) as client:
        yield client


def _options(
    url: str,
    name: str,
    tables: Sequence[str],
    prefix: str,
    partitions: int,
    on_truncate: str,
    heartbeat_ms: int,
    stop: threading.Event | None,
    tell: Callable[[str], None] | None,
    max_wal_bytes: int | None = None,
    on_max_wal: str = "stop",
    format_: str = "json",
    registry: SchemaRegistry | str | None = None,
    tombstones: bool = True,
    headers: bool = False,
    failover: bool = False,
    metrics_listener: str | None = None,
) -> Any:
    from drumlin.capture.changes import OnTruncate
    from drumlin.capture.forms.choice import Format, form_of
    from drumlin.capture.forms.debezium import POSTGRES
    from drumlin.capture.running.options import CaptureOptions, OnMaxWal
    from drumlin.client import arguments

    arguments.no_text("tables", tables)
    if max_wal_bytes is not None:
        arguments.whole_number("max_wal_bytes", max_wal_bytes, 1, 2**63)
    return CaptureOptions(
        url=url,
        name=name,
        tables=tuple(tables),
        prefix=prefix,
        partitions=partitions,
        on_truncate=OnTruncate(on_truncate),
        heartbeat_s=arguments.whole_number("heartbeat_ms", heartbeat_ms, 1, 2**31) / 1000,
        max_wal_bytes=max_wal_bytes,
        on_max_wal=OnMaxWal(on_max_wal),
        form=form_of(Format(format_), registry, POSTGRES, prefix or name, tombstones, headers),
        is_failover=failover,
        metrics_listener=metrics_listener,
        tell=tell or (lambda _: None),
        should_stop=(stop or threading.Event()).is_set,
    )
