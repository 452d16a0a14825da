"""The modes of a landing, and the periods by which rows may be kept apart."""

from __future__ import annotations

from typing import Literal, TypeAlias

#: A row for every record, or a row for every key, with its last value.
Mode: TypeAlias = Literal["append", "upsert"]
MODES: tuple[Mode, ...] = ("append", "upsert")
#: The rows of each day, or of each hour, of their timestamps in files of their own; in UTC.
Period: TypeAlias = Literal["day", "hour"]
PERIODS: tuple[Period, ...] = ("day", "hour")
#: Stands for the topic's name in a URL, and in a subject.
TOPIC = "{topic}"
#: The column that says so of tombstones, and of the rows of deleted keys, where values are typed:
#: all of their fields are null, which those of a value may be as well.
TOMBSTONE = "is_tombstone"
