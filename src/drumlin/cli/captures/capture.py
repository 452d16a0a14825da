"""`drumlin capture`: the changes of a PostgreSQL or a MariaDB, in a topic for each table.

A password on the command line is refused, as every user of the machine could read it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import click

from drumlin.capture import DEFAULT_NAME, EVERY_TABLE
from drumlin.capture.changes import OnTruncate
from drumlin.capture.forms.choice import Format
from drumlin.capture.running.options import OnMaxWal
from drumlin.cli.reach.command_config import CommandConfig, settings_of
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Group, Option
from drumlin.cli.terminal.options import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    Yes,
    confirm,
    examples,
    read_properties,
)

_URL_VARIABLE: Final = "DRUMLIN_CAPTURE_URL"

app: Final = Group(help="Write the changes of a database to topics.")

Url = Annotated[
    str,
    Option(
        "--url",
        envvar=_URL_VARIABLE,
        metavar="postgresql://USER@HOST/DATABASE",
        help="The database, or mariadb://USER@HOST/DATABASE; a password is in PGPASSFILE, "
        "PGPASSWORD or MYSQL_PWD, or in the variable's URL.",
    ),
]
Name = Annotated[
    str,
    Option("--name", metavar="NAME", help="Of the capture: slot and publication are called by it."),
]
Tables = Annotated[
    list[str] | None,
    Option(
        "--tables",
        metavar="PATTERN",
        help="Tables as schema.table, with * and ?. Repeatable; default: all.",
    ),
]

Partitions = Annotated[
    int, Option("--partitions", "-p", min=-1, help="Of new topics; -1: the broker's default.")
]
HeartbeatMs = Annotated[
    int,
    Option(
        "--heartbeat-ms",
        min=1,
        metavar="MS",
        help="How often the position is written while no captured table changes.",
    ),
]


@app.add(
    epilog=examples(
        "drumlin capture postgres --url postgresql://app@db.example/shop --tables 'shop.*'",
        "drumlin capture postgres --url postgresql://app@db.example/shop --setup",
    )
)
def postgres(
    url: Url,
    name: Name = DEFAULT_NAME,
    tables: Tables = None,
    prefix: Annotated[
        str, Option("--prefix", metavar="TEXT", help="Topics are PREFIX.SCHEMA.TABLE.")
    ] = "",
    partitions: Partitions = -1,
    on_truncate: Annotated[
        OnTruncate, Option("--on-truncate", help="What to do when a table is truncated.")
    ] = OnTruncate.STOP,
    heartbeat_ms: HeartbeatMs = 10_000,
    max_wal_bytes: Annotated[
        int | None,
        Option(
            "--max-wal-bytes",
            min=1,
            metavar="BYTES",
            help="How much WAL the server may keep for the slot; default: no limit.",
        ),
    ] = None,
    on_max_wal: Annotated[
        OnMaxWal, Option("--on-max-wal", help="At that limit: stop, or drop the slot as well.")
    ] = OnMaxWal.STOP,
    format_: Annotated[
        Format, Option("--format", help="The form of keys and values.")
    ] = Format.JSON,
    registry_config: Annotated[
        Path | None,
        Option(
            "--registry-config",
            metavar="FILE",
            help="Properties of the schema registry: schema.registry.url, login. For Avro.",
        ),
    ] = None,
    tombstones: Annotated[
        bool,
        Option(
            "--tombstones/--no-tombstones",
            help="Whether a tombstone follows Debezium's envelope of a delete.",
        ),
    ] = True,
    headers: Annotated[
        bool, Option("--headers", help="Tell LSN, transaction and operation in headers.")
    ] = False,
    failover: Annotated[
        bool,
        Option(
            "--failover",
            help="Have standbys synchronize the slot, to go on where one is promoted.",
        ),
    ] = False,
    metrics_listener: Annotated[
        str | None,
        Option(
            "--metrics-listener",
            metavar="HOST:PORT",
            help="Where Prometheus may fetch metrics, as 127.0.0.1:9405.",
        ),
    ] = None,
    setup: Annotated[
        bool, Option("--setup", help="Check the database, make the publication, and end.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Capture a PostgreSQL: its tables first, then every change, until Ctrl-C.

    Started again, it continues where it stopped: nothing is written twice, nothing is left out.
    """
    from drumlin import capture

    _check_no_password(url)
    patterns = tables or EVERY_TABLE
    with _told():
        if setup:
            for each in capture.setup(url, name=name, tables=patterns):
                print(each)
            return
        capture.postgres(
            url,
            bootstrap,
            name=name,
            tables=patterns,
            prefix=prefix,
            partitions=partitions,
            on_truncate=on_truncate.value,
            heartbeat_ms=heartbeat_ms,
            max_wal_bytes=max_wal_bytes,
            on_max_wal=on_max_wal.value,
            format=format_.value,
            registry=_registry_in(registry_config),
            tombstones=tombstones,
            headers=headers,
            failover=failover,
            metrics_listener=metrics_listener,
            stop=_stop_by_signal(),
            tell=lambda sentence: output.note(f"drumlin capture: {sentence}"),
            security=_security_of(command_config),
        )


@app.add(
    epilog=examples(
        "drumlin capture mariadb --url mariadb://app@db.example/shop --prefix shop",
        "drumlin capture mariadb --url mariadb://app@db.example --tables 'shop.*' --setup",
    )
)
def mariadb(
    url: Url,
    name: Name = DEFAULT_NAME,
    tables: Annotated[
        list[str] | None,
        Option(
            "--tables",
            metavar="PATTERN",
            help="Tables as database.table, with * and ?. Repeatable; default: all.",
        ),
    ] = None,
    prefix: Annotated[
        str, Option("--prefix", metavar="TEXT", help="Topics are PREFIX.DATABASE.TABLE.")
    ] = "",
    partitions: Partitions = -1,
    on_truncate: Annotated[
        OnTruncate, Option("--on-truncate", help="What to do when a table is truncated or dropped.")
    ] = OnTruncate.STOP,
    heartbeat_ms: HeartbeatMs = 10_000,
    setup: Annotated[bool, Option("--setup", help="Check the database, and end.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Capture a MariaDB: its tables first, then every change in its binlog, until Ctrl-C.

    Started again, it continues where it stopped: nothing is written twice, nothing is left out.
    """
    from drumlin import capture

    _check_no_password(url)
    patterns = tables or EVERY_TABLE
    with _told():
        if setup:
            for each in capture.setup(url, name=name, tables=patterns):
                print(each)
            return
        capture.mariadb(
            url,
            bootstrap,
            name=name,
            tables=patterns,
            prefix=prefix,
            partitions=partitions,
            on_truncate=on_truncate.value,
            heartbeat_ms=heartbeat_ms,
            stop=_stop_by_signal(),
            tell=lambda sentence: output.note(f"drumlin capture: {sentence}"),
            security=_security_of(command_config),
        )


@app.add(
    epilog=examples(
        "drumlin capture status --url postgresql://app@db.example/shop",
        "drumlin capture status --url mariadb://app@db.example",
    )
)
def status(
    url: Url,
    name: Name = DEFAULT_NAME,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of a capture, and how much WAL the server keeps for it."""
    from drumlin import capture

    _check_no_password(url)
    with _told():
        found = capture.status(url, bootstrap, name=name, security=_security_of(command_config))
    row = found._asdict()
    if isinstance(found, capture.MariadbStatus):
        columns = ["name", "phase", "gtids", "server_gtids", "lag_transactions"]
    else:
        columns = ["name", "phase", "is_running", "lsn", "confirmed_lsn", "server_lsn"]
        columns += ["lag_s", "lag_bytes", "kept_bytes", "missing_bytes", "is_slot_lost"]
        columns += ["is_failover", "records", "transactions", "restarts", "reading"]
        if not as_json:
            row["reading"] = ", ".join(found.reading)
    output.show_rows([row], columns, as_json=as_json)


@app.add(epilog=examples("drumlin capture reread --tables shop.item"))
def reread(
    tables: Annotated[
        list[str],
        Option(
            "--tables",
            metavar="PATTERN",
            help="Captured tables as schema.table, with * and ?. Repeatable.",
        ),
    ],
    name: Name = DEFAULT_NAME,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Have a capture read tables again, in chunks, while it continues to follow the changes.

    Only the differences are written. A capture that is not running does it at its next start.
    """
    from drumlin import capture

    with _told():
        security = _security_of(command_config)
        told = capture.reread(bootstrap, tables=tables, name=name, security=security)
    sentences = [f"{each} will be read again" for each in told]
    output.show_changes([{"table": each} for each in told], sentences, as_json)


@app.add(epilog=examples("drumlin capture pause --name shop"))
def pause(
    name: Name = DEFAULT_NAME,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Have a capture wait until it is resumed, now and whenever it is started.

    The server keeps the WAL that the topics do not have yet.
    """
    from drumlin import capture

    with _told():
        capture.pause(bootstrap, name=name, security=_security_of(command_config))
    output.show_changes([{"paused": name}], [f"capture {name} is paused"], as_json)


@app.add(epilog=examples("drumlin capture resume --name shop"))
def resume(
    name: Name = DEFAULT_NAME,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Have a paused capture continue where it stopped."""
    from drumlin import capture

    with _told():
        capture.resume(bootstrap, name=name, security=_security_of(command_config))
    output.show_changes([{"resumed": name}], [f"capture {name} continues"], as_json)


@app.add(epilog=examples("drumlin capture remove --url postgresql://app@db.example/shop"))
def remove(
    url: Url,
    name: Name = DEFAULT_NAME,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Forget the position, and drop slot and publication; the tables' topics stay."""
    from drumlin import capture

    _check_no_password(url)
    confirm(f"Remove capture {name}? What changes from now on is not captured.", yes)
    with _told():
        done = capture.remove(url, bootstrap, name=name, security=_security_of(command_config))
    if not done:
        output.note(f"drumlin capture: there is nothing of a capture {name} to remove")
    output.show_changes([{"removed": each} for each in done], done, as_json)


def _security_of(command_config: Path | None) -> Any:
    return settings_of(command_config).get("security")


def _registry_in(file: Path | None) -> Any:
    from drumlin.client.values.registry_properties import registry_in

    if file is None:
        return None
    try:
        return registry_in(read_properties(file))
    except ValueError as error:
        raise output.Failure(f"{file}: {error}") from None


def _check_no_password(url: str) -> None:
    """Refuse a password on the command line.

    Raises:
        click.BadParameter: the URL has a password, which every user of the machine could read.
    """
    from urllib.parse import urlsplit

    from drumlin.capture.binlog.connections import is_of_mariadb

    if url == os.environ.get(_URL_VARIABLE):
        return
    try:
        has_password = urlsplit(url).password is not None
    except ValueError:
        has_password = False
    if has_password or "password=" in url:
        place = "MYSQL_PWD" if is_of_mariadb(url) else "PGPASSFILE or in PGPASSWORD"
        raise click.BadParameter(
            "--url with a password shows it to everybody on this machine: have it in "
            f"{place}, or give the URL as {_URL_VARIABLE}"
        )


@contextmanager
def _told() -> Iterator[None]:
    """Report a capture's errors to the user in one line."""
    from drumlin.capture.binlog.connections import NO_PYMYSQL
    from drumlin.capture.database.connections import NO_PSYCOPG
    from drumlin.capture.errors import CaptureError

    try:
        yield
    except CaptureError as error:
        raise output.Failure(str(error)) from error
    except ModuleNotFoundError as error:
        missing = {"psycopg": NO_PSYCOPG, "pymysql": NO_PYMYSQL}.get(error.name or "")
        if missing is None:
            raise
        raise output.Failure(missing) from None


def _stop_by_signal() -> threading.Event:
    """An event that Ctrl-C or SIGTERM sets, to stop between transactions; a second interrupts."""
    stop = threading.Event()

    def told(number: int, _: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        output.note(f"drumlin capture: {signal.Signals(number).name}: stopping")

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, told)
    return stop
