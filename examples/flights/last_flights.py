"""Compaction: a topic that keeps the last flight of every aircraft, and forgets those before.

The topic is filled, looked at, cleaned by the broker, and looked at again.
"""

from __future__ import annotations

import json
import time
import urllib.request
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drumlin import Client, lowlevel

_PARTITION = 0
_CLEANING_TIMEOUT_S = 180
_LOOK_EVERY_S = 0.05
#: What compaction needs, and a few things so that there is something to see within seconds.
_CONFIGS = {
    "cleanup.policy": "compact",
    # Whole segments are cleaned, and never the one that is being written: so let them be small.
    "segment.bytes": str(2 << 20),
    # More than all of it would have to be dirty: nothing happens until `compact` asks for it.
    "min.cleanable.dirty.ratio": "1",
}


class Snapshot(NamedTuple):
    """What is in the topic at one moment; `records` has offset, key and value."""

    records: pa.Table
    size_bytes: int

    @property
    def aircraft(self) -> int:
        return int(pc.count_distinct(self.records["key"]).as_py())


@dataclass(frozen=True)
class Compaction:
    """The topic before and after; records below `end_offset` were looked at by the cleaner."""

    before: Snapshot
    after: Snapshot
    end_offset: int
    seconds: float


class BrokenPromise(Exception):
    """Compaction has lost, moved or changed the last flight of an aircraft."""


def fill(client: Client, topic: str, flights: pa.Table) -> None:
    """Write the flights whose aircraft is known: a compacted topic takes no record without key."""
    client.create_topic(topic, 1, configs=_CONFIGS)
    client.append(flights.filter(pc.is_valid(flights["key"])), topic)


def compact(client: Client, topic: str, status_url: str) -> Compaction:
    """Have the topic cleaned, and look at it before and after."""
    before = _look(client, topic)
    began = time.monotonic()
    client.set_topic_configs(topic, {"min.cleanable.dirty.ratio": "0.01"})
    end_offset = _wait_until_clean(status_url, topic)
    seconds = time.monotonic() - began
    return Compaction(before, _look(client, topic), end_offset, seconds)


def check(before: pa.Table, after: pa.Table) -> None:
    """Every aircraft's last flight is there, unchanged and at its offset.

    Raises:
        BrokenPromise: it is not.
    """
    if not last_of_each(before).equals(last_of_each(after)):
        raise BrokenPromise("the last flights are not what they were before")


def last_of_each(records: pa.Table) -> pa.Table:
    """For every aircraft the record with the largest offset, in the order of offsets."""
    offsets = records.group_by("key").aggregate([("offset", "max")])["offset_max"]
    last = records.filter(pc.is_in(records["offset"], value_set=offsets.combine_chunks()))
    return last.combine_chunks().sort_by("offset")


def _look(client: Client, topic: str) -> Snapshot:
    records = client.read(topic, columns=["offset", "key", "value"])
    place = (topic, _PARTITION)
    return Snapshot(records, lowlevel.partition_sizes(client, [place])[place])


def _wait_until_clean(status_url: str, topic: str) -> int:
    """Ask the broker until nothing that can be cleaned is dirty; the offset up to which it is."""
    deadline = time.monotonic() + _CLEANING_TIMEOUT_S
    while True:
        status = _status(status_url, topic)
        if status["last_cleaning"] is not None and status["head_bytes"] == 0:
            return int(status["first_dirty_offset"])
        if time.monotonic() > deadline:
            raise SystemExit(f"'{topic}' was not cleaned in {_CLEANING_TIMEOUT_S} s: {status}")
        time.sleep(_LOOK_EVERY_S)


def _status(status_url: str, topic: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{status_url}?topic={topic}") as answer:  # noqa: S310 - our own
        status: dict[str, Any] = json.load(answer)["partitions"][_PARTITION]
    return status
