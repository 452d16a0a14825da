"""Decides where a capture begins, from the state of log and database. Pure."""

from __future__ import annotations

from typing import NamedTuple

from drumlin.capture.database.catalog import Server, Slot
from drumlin.capture.errors import CaptureRefused
from drumlin.capture.log.position import Definition, Position
from drumlin.capture.messages.lsn import lsn_text, parse_lsn

_ANEW = (
    "`drumlin capture remove`, then start again: the tables are read again, and the topics get "
    "what differs"
)


class FromSnapshot(NamedTuple):
    """The tables are read first. A slot left by an interrupted snapshot is dropped."""

    drops_slot: bool


class FromStream(NamedTuple):
    """The stream continues at this LSN: the topics hold all changes before, and none after it."""

    lsn: int


def beginning(
    position: Position | None,
    definition: Definition | None,
    slot: Slot | None,
    server: Server,
    slot_name: str,
) -> FromSnapshot | FromStream:
    """The starting point of this capture.

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
    if slot is None:
        raise CaptureRefused(
            f"slot {slot_name} is gone, and with it the changes after {lsn_text(position.lsn)}: "
            f"{_ANEW}"
        )
    if slot.plugin != "pgoutput" or slot.database != server.database:
        raise CaptureRefused(
            f"slot {slot_name} is of database {slot.database} and plugin {slot.plugin}, "
            f"and not of this capture: {_ANEW}"
        )
    if slot.is_lost:
        raise CaptureRefused(
            f"slot {slot_name} is lost: the server has removed changes after "
            f"{lsn_text(position.lsn)} (max_slot_wal_keep_size): {_ANEW}"
        )
    confirmed = parse_lsn(slot.confirmed_lsn or "0/0")
    if confirmed > position.lsn:
        raise CaptureRefused(
            f"slot {slot_name} was advanced by someone else: the changes from "
            f"{lsn_text(position.lsn)} to {lsn_text(confirmed)} "
            f"({confirmed - position.lsn:,} bytes of WAL) are missing in the topics: {_ANEW}"
        )
    if parse_lsn(server.wal_lsn) < position.lsn:
        raise CaptureRefused(
            f"the database is at {server.wal_lsn}, and the topics are at "
            f"{lsn_text(position.lsn)} already: it was restored to an earlier state, which they do "
            f"not have: {_ANEW}"
        )
    return FromStream(position.lsn)


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
