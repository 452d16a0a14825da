"""Failover between servers: their identity, timelines, and slots on standbys.

A promoted standby starts a new timeline at the end of the WAL it had received. WAL positions after
that end exist on both timelines, and mean different changes: compare LSNs of one timeline only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from drumlin.capture.database import catalog, connections, waiting
from drumlin.capture.database.catalog import quoted
from drumlin.capture.database.silence import QUICK_S
from drumlin.capture.errors import CaptureError, DatabaseLost
from drumlin.capture.messages.lsn import parse_lsn

if TYPE_CHECKING:
    import psycopg

_STANDBYS: Final = "SELECT current_setting('synchronized_standby_slots', true)"


class Identity(NamedTuple):
    """A database cluster, and the timeline to which its server writes."""

    system_id: str
    timeline: int


def connect(url: str, identity: Identity) -> psycopg.Connection[Any]:
    """Open a replication connection to the server that another connection has identified.

    Raises:
        DatabaseLost: the server cannot be reached, or the URL leads to another one by now.
        DatabaseRefused: the connection is rejected.
    """
    replication = connections.connect(url, is_replication=True)
    try:
        result = waiting.result_of(replication, "IDENTIFY_SYSTEM", lambda: False, QUICK_S)
        system_id, timeline = result.get_value(0, 0) or b"", result.get_value(0, 1) or b"0"
        if Identity(system_id.decode(), int(timeline)) != identity:
            raise DatabaseLost("another server has taken over meanwhile")
    except BaseException:
        with contextlib.suppress(Exception):
            replication.close()
        raise
    return replication


def ended_timelines(replication: psycopg.Connection[Any], timeline: int) -> Mapping[int, int]:
    """The timelines that preceded this one, with the LSN at which each ended.

    Raises:
        DatabaseLost, DatabaseRefused: the server cannot be asked, or has no such timeline.
        CaptureError: the history cannot be read.
    """
    if timeline <= 1:
        return {}
    statement = f"TIMELINE_HISTORY {timeline}"
    result = waiting.result_of(replication, statement, lambda: False, QUICK_S)
    return parse_history((result.get_value(0, 1) or b"").decode(errors="replace"))


def parse_history(text: str) -> dict[int, int]:
    """Parse a timeline history file.

    Raises:
        CaptureError: the text has another format.
    """
    found = {}
    for line in text.splitlines():
        fields = line.split("#")[0].split()
        if not fields:
            continue
        try:
            found[int(fields[0])] = parse_lsn(fields[1])
        except (ValueError, IndexError):
            raise CaptureError(f"no line of a timeline history: {line[:200]!r}") from None
    return found


def keep_on_standbys(replication: psycopg.Connection[Any], slot: str) -> None:
    """Have standbys synchronize an existing slot, which nobody may be reading.

    Raises:
        DatabaseLost, DatabaseRefused: the slot was not altered.
    """
    statement = f"ALTER_REPLICATION_SLOT {quoted(slot)} (FAILOVER)"
    waiting.result_of(replication, statement, lambda: False, QUICK_S)


def waits_for_standbys(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server sends a change only after its standbys have it.

    Raises:
        DatabaseLost, DatabaseRefused: the server cannot be asked.
    """
    ((found,),) = catalog.rows(connection, _STANDBYS)
    return bool(found)
