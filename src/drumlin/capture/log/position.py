"""The position and the definition of a capture, as values of two records. Pure.

Every transaction contains the new position; the definition is written only when it changes. Each
has its own partition, so the latest one is the last record of the partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from drumlin.capture.changes import Table
from drumlin.capture.errors import CaptureError
from drumlin.capture.messages.lsn import lsn_text, parse_lsn

POSITION_PARTITION: Final = 0
DEFINITION_PARTITION: Final = 1
PARTITIONS: Final = 2
_FORMAT: Final = 1
_SNAPSHOT: Final = "snapshot"
_STREAM: Final = "stream"


class Counts(NamedTuple):
    """The work of one process since it began, up to a position."""

    since_ms: int
    records: int
    transactions: int  # of the database, with changes of captured tables
    restarts: int
    current_ms: int | None  # the topics have everything that was committed by then


@dataclass(frozen=True)
class BinlogPosition:
    """A position in the binlog of a MariaDB.

    `last`: the transaction before this position, by which the binlog is recognized; `before`: the
    position before that transaction. Both are None before the first one. `prepared`: the prepared
    XA transactions that change no captured table. `created`: tables that were created before this
    position, and will be captured.
    """

    gtids: str  # the last GTID of every domain
    before: str | None = None
    last: str | None = None
    last_time_s: int | None = None
    prepared: tuple[str, ...] = ()
    created: tuple[str, ...] = ()


@dataclass(frozen=True)
class Position:
    """The position that the topics have reached.

    `lsn`, or `binlog` of a MariaDB: the topics hold all transactions committed before it, and none
    after it; both None: the snapshot is not complete. `timeline`: that of the server that sent
    them. `changed_lsn`: the topics hold no change of a transaction that ends after this LSN. A
    `timeline` or `changed_lsn` of None is unknown.
    """

    run: str  # the run that has written this position
    lsn: int | None
    timeline: int | None = None
    changed_lsn: int | None = None
    counts: Counts | None = None
    binlog: BinlogPosition | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the snapshot is complete."""
        return self.lsn is not None or self.binlog is not None

    def encode(self) -> str:
        fields: dict[str, Any] = {
            "format": _FORMAT,
            "phase": _STREAM if self.is_complete else _SNAPSHOT,
            "lsn": None if self.lsn is None else lsn_text(self.lsn),
            "run": self.run,
        }
        if self.timeline is not None:
            fields["timeline"] = self.timeline
        if self.changed_lsn is not None:
            fields["changed_lsn"] = lsn_text(self.changed_lsn)
        if self.counts is not None:
            fields["counts"] = self.counts._asdict()
        if self.binlog is not None:
            fields["binlog"] = asdict(self.binlog)
        return json.dumps(fields)


@dataclass(frozen=True)
class Definition:
    """The captured tables, and their database."""

    system_id: str  # of the PostgreSQL cluster
    database: str
    tables: Sequence[Table]
    is_paused: bool = False
    form: str = "json"  # of the records

    @property
    def unread(self) -> list[Table]:
        """Tables that are not completely read yet."""
        return [each for each in self.tables if not each.is_read]

    def with_tables(self, changed: Iterable[Table]) -> Definition:
        """The definition with these tables added; a table replaces the one with the same oid."""
        tables = {each.oid: each for each in self.tables}
        tables.update({each.oid: each for each in changed})
        return replace(self, tables=list(tables.values()))

    @property
    def topics(self) -> list[str]:
        return [each.topic for each in self.tables]

    def encode(self) -> str:
        tables = [
            {**each._asdict(), "key": list(each.key), "key_kinds": list(each.key_kinds)}
            for each in sorted(self.tables, key=lambda table: table.full_name)
        ]
        return json.dumps(
            {
                "format": _FORMAT,
                "system_id": self.system_id,
                "database": self.database,
                "tables": tables,
                "is_paused": self.is_paused,
                "form": self.form,
            },
            ensure_ascii=False,
        )


def decode_position(value: bytes) -> Position:
    """Decode a position from a record's value.

    Raises:
        CaptureError: another version, or another program, has written the record.
    """
    found = _parsed(value)
    try:
        is_stream, is_binlog = found["phase"] == _STREAM, "binlog" in found
        timeline, changed = found.get("timeline"), found.get("changed_lsn")
        counts = found.get("counts")
        return Position(
            str(found["run"]),
            parse_lsn(found["lsn"]) if is_stream and not is_binlog else None,
            None if timeline is None else int(timeline),
            None if changed is None else parse_lsn(changed),
            None if counts is None else Counts(**counts),
            _binlog(found["binlog"]) if is_binlog else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CaptureError(f"no position of a capture: {value[:200]!r}: {error!r}") from None


def _binlog(found: Any) -> BinlogPosition:
    lists = {name: tuple(found.get(name, ())) for name in ("prepared", "created")}
    return BinlogPosition(**{**found, **lists})


def decode_definition(value: bytes) -> Definition:
    """Decode a definition from a record's value.

    Raises:
        CaptureError: another version, or another program, has written the record.
    """
    found = _parsed(value)
    try:
        tables = [
            Table(
                int(each["oid"]),
                each["schema"],
                each["name"],
                each["topic"],
                tuple(each["key"]),
                tuple(each["key_kinds"]),
                bool(each.get("is_read", True)),
                each.get("topic_id"),
                None if each.get("leaves") is None else tuple(map(int, each["leaves"])),
            )
            for each in found["tables"]
        ]
        system_id, database = str(found["system_id"]), str(found["database"])
        is_paused, form = bool(found.get("is_paused", False)), str(found.get("form", "json"))
        return Definition(system_id, database, tables, is_paused, form)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CaptureError(f"no definition of a capture: {value[:200]!r}: {error!r}") from None


def _parsed(value: bytes) -> Any:
    try:
        found = json.loads(value)
        number = found["format"]
    except (ValueError, KeyError, TypeError):
        raise CaptureError(f"not written by a capture: {value[:200]!r}") from None
    if number != _FORMAT:
        raise CaptureError(f"written by another version of Drumlin, in format {number}")
    return found
