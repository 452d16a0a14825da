"""Decides where a capture begins, from the state of log and database. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from drumlin.capture.database.catalog import Server, Slot
from drumlin.capture.errors import CaptureRefused
from drumlin.capture.log.position import Definition, Position
from drumlin.capture.messages.lsn import lsn_text, parse_lsn

_ANEW: Final = (
    "`drumlin capture remove`, then start again: the tables are read again, and the topics get "
    "what differs"
)
#: By the reason of a slot's invalidation: the setting, or the event, that caused it.
_LOST_BY: Final = {
    "wal_removed": "max_slot_wal_keep_size",
    "idle_timeout": "idle_replication_slot_timeout",
    "wal_level_insufficient": "wal_level",
    "rows_removed": "a conflict with the primary's vacuum",
}


class FromSnapshot(NamedTuple):
    """The tables are read first. A slot left by an interrupted snapshot is dropped."""

    drops_slot: bool


class FromStream(NamedTuple):
    """The stream continues at this LSN: the topics hold all changes before, and none after it."""

    lsn: int
    changed_lsn: int


def beginning(
    position: Position | None,
    definition: Definition | None,
    slot: Slot | None,
    server: Server,
    slot_name: str,
    ended: Mapping[int, int],
) -> FromSnapshot | FromStream:
    """The starting point of this capture.

    `ended`: the timelines that preceded the server's, with the LSN at which each ended.

    Raises:
        CaptureRefused: wherever it began, changes would be lost or written twice.
    """
    if definition is not None:
        _check_same_database(definition, server)
    if position is None or position.lsn is None:
        if position is None and slot is not None:
            raise CaptureRefused(
                f"slot {slot_name} is there, and no topic tells how far its changes were written: "
                f"SELECT pg_drop_replication_slot('{slot_name}'), or take another --name"
            )
        return FromSnapshot(drops_slot=slot is not None)
    lsn = _common_lsn(position, position.lsn, server, ended)
    if slot is None:
        raise CaptureRefused(
            f"slot {slot_name} is gone, and with it the changes after {lsn_text(lsn)}"
            f"{_promoted(position, server)}: {_ANEW}"
        )
    if slot.plugin != "pgoutput" or slot.database != server.database:
        raise CaptureRefused(
            f"slot {slot_name} is of database {slot.database} and plugin {slot.plugin}, "
            f"and not of this capture: {_ANEW}"
        )
    if slot.lost_by is not None:
        raise CaptureRefused(
            f"slot {slot_name} is lost: the server has removed changes after "
            f"{lsn_text(lsn)} ({_LOST_BY.get(slot.lost_by, slot.lost_by)}): {_ANEW}"
        )
    confirmed = parse_lsn(slot.confirmed_lsn or "0/0")
    if confirmed > lsn:
        raise CaptureRefused(
            f"slot {slot_name} was advanced by someone else: the changes from "
            f"{lsn_text(lsn)} to {lsn_text(confirmed)} "
            f"({confirmed - lsn:,} bytes of WAL) are missing in the topics: {_ANEW}"
        )
    if parse_lsn(server.wal_lsn) < lsn:
        raise CaptureRefused(
            f"the database is at {server.wal_lsn}, and the topics are at "
            f"{lsn_text(lsn)} already: it was restored to an earlier state, which they do "
            f"not have: {_ANEW}"
        )
    changed_lsn = position.lsn if position.changed_lsn is None else position.changed_lsn
    return FromStream(lsn, min(changed_lsn, lsn))


def has_changed_timeline(position: Position | None, server: Server) -> bool:
    """Whether the server's history must be known, to compare its LSNs with the position."""
    return (
        position is not None
        and position.lsn is not None
        and position.timeline is not None
        and position.timeline != server.timeline
    )


def _common_lsn(position: Position, lsn: int, server: Server, ended: Mapping[int, int]) -> int:
    """The LSN up to which the topics have exactly the server's changes.

    Raises:
        CaptureRefused: the topics have changes that the server does not have.
    """
    if not has_changed_timeline(position, server):
        return lsn
    assert position.timeline is not None
    end = ended.get(position.timeline)
    if end is None:
        raise CaptureRefused(
            f"the server writes timeline {server.timeline}, and the topics are on timeline "
            f"{position.timeline}, which is no earlier one of it: --url leads to a former primary, "
            f"or to a database that was restored: give the --url of the primary; or {_ANEW}"
        )
    if lsn <= end:
        return lsn
    changed_lsn = lsn if position.changed_lsn is None else position.changed_lsn
    if changed_lsn <= end:  # what follows the end did not change a captured table
        return end
    raise CaptureRefused(
        f"the server was promoted, or restored, at {lsn_text(end)}, and did not have the last "
        f"changes of the topics, which end at {lsn_text(changed_lsn)} ({changed_lsn - end:,} bytes "
        f"of WAL further): {_ANEW} (synchronized_standby_slots on the primary prevents it)"
    )


def _promoted(position: Position, server: Server) -> str:
    """The possible reason for a missing slot."""
    if not has_changed_timeline(position, server):
        return ""
    return " (a standby was promoted, and did not have the slot: --failover brings it there)"


def check_form(definition: Definition | None, form: str) -> None:
    """
    Raises:
        CaptureRefused: the topics hold records of another form.
    """
    if definition is not None and definition.form != form:
        raise CaptureRefused(
            f"the topics of this capture hold records of the form {definition.form}: start it with "
            f"--format {definition.form}; for {form}, `drumlin capture remove` it, and begin anew "
            "into topics of another --prefix"
        )


def _check_same_database(definition: Definition, server: Server) -> None:
    if (definition.system_id, definition.database) != (server.system_id, server.database):
        raise CaptureRefused(
            f"this capture is of database {definition.database} of the server with system "
            f"identifier {definition.system_id}; --url leads to {server.database} of "
            f"{server.system_id}: take another --name"
        )
