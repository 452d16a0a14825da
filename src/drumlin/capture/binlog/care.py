"""The operator's other commands for a capture of a MariaDB: set up, status, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from drumlin.capture.binlog import catalog, connections, plan
from drumlin.capture.binlog_events.gtids import GtidPosition
from drumlin.capture.log import output as outputs
from drumlin.capture.log.names import Names
from drumlin.capture.log.output import Output
from drumlin.capture.running.options import CaptureOptions

if TYPE_CHECKING:
    from drumlin.client.client import Client


class MariadbStatus(NamedTuple):
    """The progress of a capture of a MariaDB, from log and database.

    `lag_transactions`: the number of transactions in the binlog that the topics do not have yet;
    None: unknown, as the server's GTIDs belong to another history.
    """

    name: str
    phase: str  # absent, snapshot, stream, paused
    gtids: str | None  # the position that the topics have reached
    server_gtids: str
    lag_transactions: int | None
    tables: dict[str, str]  # topic by table


def setup(options: CaptureOptions) -> list[str]:
    """Check the database; returns the tables.

    Raises:
        DatabaseLost, CaptureError: the database cannot be reached, or cannot be captured.
    """
    Names(options.name)
    with connections.connected(options.url) as connection:
        found = plan.look(connection, options, None)
    return [each.full_name for each in found.tables]


def status(url: str, client: Client, name: str) -> MariadbStatus:
    """The progress of a capture.

    Raises:
        DatabaseLost, CaptureError, ClientError: database or cluster cannot be queried.
    """
    names = Names(name)
    with connections.connected(url) as connection:
        server_gtids = catalog.position(connection)
    position = definition = None
    if outputs.has_own_topic(client, names):
        position = outputs.read_position(client, names)
        definition = outputs.read_definition(client, names)
    phase, gtids = "absent", None
    if position is not None:
        is_paused = definition is not None and definition.is_paused
        phase = "snapshot" if position.binlog is None else "paused" if is_paused else "stream"
        gtids = None if position.binlog is None else position.binlog.gtids
    return MariadbStatus(
        name,
        phase,
        gtids,
        server_gtids,
        None if gtids is None else _lag(gtids, server_gtids),
        {} if definition is None else {each.full_name: each.topic for each in definition.tables},
    )


def _lag(reached: str, server: str) -> int | None:
    ours, theirs = GtidPosition.parse(reached), GtidPosition.parse(server)
    lag = 0
    for domain, gtid in theirs.items():
        mine = ours.get(domain)
        lag += gtid.sequence - (0 if mine is None else mine.sequence)
    return lag if lag >= 0 and set(ours) <= set(theirs) else None


def remove(client: Client, name: str) -> list[str]:
    """Delete the position topic; the tables' topics stay. A capture that is running ends.

    Returns:
        A sentence for each thing that was removed.

    Raises:
        CaptureError, ClientError: the position topic was not deleted.
    """
    names = Names(name)
    if not outputs.has_own_topic(client, names):
        return []
    Output(client, names).abort()  # fences a capture that is running
    client.delete_topic(names.topic)
    return [f"topic {names.topic} is deleted"]
