"""The operator's other commands for a capture: set up, status, reread, pause, remove."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from drumlin.capture.database import catalog, checks, connections
from drumlin.capture.database.catalog import quoted
from drumlin.capture.errors import CaptureRefused
from drumlin.capture.log import output as outputs
from drumlin.capture.log.names import Names
from drumlin.capture.log.position import Counts, Definition
from drumlin.capture.messages.lsn import lsn_text, parse_lsn
from drumlin.capture.running import plan
from drumlin.capture.running.options import CaptureOptions
from drumlin.client.transactions.errors import ProducerFenced, TransactionAborted

if TYPE_CHECKING:
    import psycopg

    from drumlin.client.client import Client

_TRIES: Final = 5
_PAUSE_S: Final = 0.5
#: The time allowed for the server to notice that a capture has ended.
_ENDS_S: Final = 5.0


class CaptureStatus(NamedTuple):
    """The progress of a capture, from log and database.

    `lag_bytes`: the WAL after the slot's confirmed LSN; None without a slot. `missing_bytes`: how
    far the slot is ahead of the topics, because someone else has advanced it; normally 0.
    `lag_s` and the counts are those of the last position, which an idle capture writes at the
    interval of its heartbeat; None: unknown.
    """

    name: str
    phase: str  # absent, snapshot, stream, paused
    lsn: str | None  # the LSN that the topics have reached
    confirmed_lsn: str | None  # the slot's confirmed LSN
    server_lsn: str
    lag_bytes: int | None
    missing_bytes: int
    is_running: bool
    is_slot_lost: bool
    tables: dict[str, str]  # topic by table
    reading: list[str]  # tables that are not completely read yet
    kept_bytes: int | None  # WAL that the server keeps for the slot
    is_failover: bool  # whether standbys may have the slot, too
    lag_s: float | None  # the time for which the topics may have lacked a change
    records: int | None  # written by the last process
    transactions: int | None  # the database transactions that it has written
    restarts: int | None  # the number of times that it has reconnected


def setup(options: CaptureOptions) -> list[str]:
    """Check the database and create the publication; returns the tables.

    Raises:
        DatabaseLost, CaptureError: the database cannot be reached, or cannot be captured.
    """
    names = Names(options.name)
    with contextlib.closing(connections.connect(options.url)) as connection:
        found = plan.look(connection, options, names, None)
        plan.publish(connection, found, names)
    return [each.full_name for each in found.tables]


def status(url: str, client: Client, name: str) -> CaptureStatus:
    """The progress of a capture.

    Raises:
        DatabaseLost, CaptureError, ClientError: database or cluster cannot be queried.
    """
    names = Names(name)
    with contextlib.closing(connections.connect(url)) as connection:
        server = catalog.server(connection)
        slot = catalog.slot(connection, names.slot)
        kept_bytes = catalog.kept_wal_bytes(connection, names.slot)
    position = definition = None
    if outputs.has_own_topic(client, names):
        position = outputs.read_position(client, names)
        definition = outputs.read_definition(client, names)
    phase = "absent"
    if position is not None:
        is_paused = definition is not None and definition.is_paused
        phase = "snapshot" if position.lsn is None else "paused" if is_paused else "stream"
    lsn = None if position is None else position.lsn
    counts = None if position is None else position.counts
    confirmed = (
        None if slot is None or slot.confirmed_lsn is None else parse_lsn(slot.confirmed_lsn)
    )
    return CaptureStatus(
        name,
        phase,
        None if lsn is None else lsn_text(lsn),
        None if confirmed is None else lsn_text(confirmed),
        server.wal_lsn,
        None if confirmed is None else max(parse_lsn(server.wal_lsn) - confirmed, 0),
        max(confirmed - lsn, 0) if confirmed is not None and lsn is not None else 0,
        slot is not None and slot.active_pid is not None,
        slot is not None and slot.lost_by is not None,
        {} if definition is None else {each.full_name: each.topic for each in definition.tables},
        [] if definition is None else [each.full_name for each in definition.unread],
        kept_bytes,
        slot is not None and slot.is_failover,
        None if lsn is None else _lag_s(counts, lsn >= parse_lsn(server.wal_lsn)),
        None if counts is None else counts.records,
        None if counts is None else counts.transactions,
        None if counts is None else counts.restarts,
    )


def _lag_s(counts: Counts | None, is_there: bool) -> float | None:
    if is_there:
        return 0.0
    if counts is None or counts.current_ms is None:
        return None
    return max(time.time_ns() // 1_000_000 - counts.current_ms, 0) / 1000


def reread(client: Client, name: str, tables: Sequence[str]) -> list[str]:
    """Have a capture read tables again, whether it is running or not; returns their names.

    Raises:
        CaptureRefused: there is no such capture or table, or its first snapshot is not complete.
        CaptureError, ClientError: the request cannot be written.
    """

    def unread(definition: Definition) -> Definition:
        if definition.system_id.startswith("mariadb:"):
            raise CaptureRefused(
                f"capture {name} is of a MariaDB, which reads its tables again after `drumlin "
                "capture remove` and a new start"
            )
        chosen = [each for each in definition.tables if checks.matches(each.full_name, tables)]
        if not chosen:
            there = ", ".join(each.full_name for each in definition.tables)
            patterns = ", ".join(tables)
            raise CaptureRefused(f"no captured table matches {patterns}: there are {there}")
        return definition.with_tables(each._replace(is_read=False) for each in chosen)

    definition = _redefine(client, name, unread)
    return [each.full_name for each in definition.tables if checks.matches(each.full_name, tables)]


def pause(client: Client, name: str, is_paused: bool) -> None:
    """Pause or resume a capture, whether it is running or not.

    Raises:
        CaptureRefused: there is no such capture, or its first snapshot is not complete.
        CaptureError, ClientError: the request cannot be written.
    """
    _redefine(client, name, lambda definition: replace(definition, is_paused=is_paused))


def _redefine(client: Client, name: str, change: Callable[[Definition], Definition]) -> Definition:
    """Change the definition of a capture.

    This fences a running capture, which then finds the new definition in the log and continues.
    """
    names = Names(name)
    if not outputs.has_own_topic(client, names):
        raise CaptureRefused(f"there is no capture {name}")
    for _ in range(_TRIES - 1):
        # The capture has just started. While it fences us, our transaction is aborted already.
        with contextlib.suppress(ProducerFenced, TransactionAborted):
            return _commit_changed(client, names, change)
        time.sleep(_PAUSE_S)
    return _commit_changed(client, names, change)


def _commit_changed(
    client: Client, names: Names, change: Callable[[Definition], Definition]
) -> Definition:
    output = outputs.Output(client, names)
    try:
        position = outputs.read_position(client, names)
        definition = outputs.read_definition(client, names)
        if position is None or definition is None or not position.is_complete:
            raise CaptureRefused(f"the first snapshot of capture {names.name} is not complete")
        definition = change(definition)
        output.commit(position, definition)
    finally:
        output.abort()
    return definition


def remove(url: str, client: Client, name: str) -> list[str]:
    """Drop slot and publication, and delete the position topic; the tables' topics stay.

    Returns:
        A sentence for each thing that was removed.

    Raises:
        CaptureRefused: the capture is running.
        DatabaseLost, CaptureError, ClientError: nothing, or only a part, was removed.
    """
    names = Names(name)
    done = []
    with contextlib.closing(connections.connect(url)) as connection:
        slot = _idle_slot(connection, names)
        if slot is not None:
            catalog.rows(connection, "SELECT pg_drop_replication_slot(%s)", (names.slot,))
            done.append(f"slot {names.slot} is dropped")
        if catalog.publication(connection, names.publication) is not None:
            catalog.run(connection, f"DROP PUBLICATION {quoted(names.publication)}")
            done.append(f"publication {names.publication} is dropped")
    if outputs.has_own_topic(client, names):
        client.delete_topic(names.topic)
        done.append(f"topic {names.topic} is deleted")
    return done


def _idle_slot(connection: psycopg.Connection[Any], names: Names) -> catalog.Slot | None:
    deadline = time.monotonic() + _ENDS_S
    while True:
        slot = catalog.slot(connection, names.slot)
        if slot is None or slot.active_pid is None:
            return slot
        if time.monotonic() >= deadline:
            raise CaptureRefused(
                f"capture {names.name} is running (process {slot.active_pid} of the server serves "
                "it): stop it first"
            )
        time.sleep(0.1)
