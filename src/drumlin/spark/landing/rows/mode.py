"""The modes of a landing, and the periods by which rows may be partitioned."""

from __future__ import annotations

from typing import Literal, TypeAlias

#: A row for every record, or a row for every key, with its last value.
Mode: TypeAlias = Literal["append", "upsert"]
MODES: tuple[Mode, ...] = ("append", "upsert")
#: Partitions rows by the day or hour of their timestamps, in UTC.
Period: TypeAlias = Literal["day", "hour"]
PERIODS: tuple[Period, ...] = ("day", "hour")
#: Stands for the topic's name in a URL, and in a subject.
TOPIC = "{topic}"
#: The column that marks tombstones, and the rows of deleted keys, if values are typed: null fields
#: alone do not tell them from a value whose fields are all null.
TOMBSTONE = "is_tombstone"
