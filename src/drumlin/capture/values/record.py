"""A change to be written to the log: a row, its topic and key, and the operation. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

#: A part of a record: text is written as UTF-8.
Data: TypeAlias = str | bytes
#: The source of a change, in the database's terms: position, transaction, `snapshot`.
Place: TypeAlias = Mapping[str, Any]
Headers: TypeAlias = tuple[tuple[str, str], ...]


class Op(StrEnum):
    """The operation on a row, in Debezium's notation."""

    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    READ = "r"  # in a snapshot, or a chunk of one


class Record(NamedTuple):
    """A record to be written; without a value it is a tombstone."""

    topic: str
    key: Data
    value: Data | None
    time_ms: int | None  # of the source's commit
    op: Op = Op.CREATE
    before: Data | None = None  # the row before, if the source has it and the form needs it
    headers: Headers = ()


class Columns(NamedTuple):
    """Records as Arrow columns, of one topic, or each record with its own topic."""

    topic: Any
    keys: Any
    values: Any
    times_ms: Any
    headers: Sequence[Headers]


def place_of(database: str, snapshot: str, lsn: int) -> Place:
    """The place of rows that are read from a table now."""
    now_us = time.time_ns() // 1000
    return {"db": database, "ts_us": now_us, "snapshot": snapshot, "lsn": lsn}


def shown(data: Data) -> str:
    """A key or a row for a message, truncated."""
    return (data if isinstance(data, str) else repr(data))[:200]
