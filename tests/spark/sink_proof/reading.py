"""What another client finds in the topic, read committed to the end, and how it differs.

Rows are compared as they are, each as often as it is there; nothing is known here of the sink.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import NamedTuple

from confluent_kafka import KafkaException, TopicPartition

from guarantees.clients import is_passing, make_consumer


class Row(NamedTuple):
    """One record, whatever its place."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class StillOpen(Exception):
    """A transaction holds up the last stable offset."""


def read_committed(address: str, topic: str, partitions: int, timeout_s: float) -> list[Row]:
    """All there is below the last stable offset, once that has come to the end of the log.

    Raises:
        StillOpen: it does not come there in time.
    """
    places = [TopicPartition(topic, each, 0) for each in range(partitions)]
    ends = _settled_ends(address, places, time.monotonic() + timeout_s)
    consumer = make_consumer(address, "proof", enable_partition_eof=True)
    rows: list[Row] = []
    try:
        missing = {each for each, end in ends.items() if end > 0}
        consumer.assign(places)
        deadline = time.monotonic() + timeout_s
        while missing:
            assert time.monotonic() < deadline, f"the end of {sorted(missing)} cannot be read"
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                if error is None:
                    rows.append(_row(message))
                elif not is_passing(error):
                    raise KafkaException(error)
            # A log may end in markers, which no consumer is shown.
            missing -= {
                each.partition
                for each in consumer.position(places)
                if each.offset >= ends[each.partition]
            }
    finally:
        consumer.close()
    return rows


def _settled_ends(address: str, places: list[TopicPartition], deadline: float) -> dict[int, int]:
    """The end offsets of the partitions, when no transaction is open in them any more."""
    stable = make_consumer(address, "proof")
    everything = make_consumer(address, "proof", isolation_level="read_uncommitted")
    ends: dict[int, int] = {}
    try:
        for place in places:
            while True:
                low = stable.get_watermark_offsets(place, 10)[1]
                high = everything.get_watermark_offsets(place, 10)[1]
                if low == high:
                    break
                if time.monotonic() > deadline:
                    raise StillOpen(f"partition {place.partition} is stable to {low} of {high}")
                time.sleep(0.1)
            ends[place.partition] = high
    finally:
        stable.close()
        everything.close()
    return ends


def _row(message: object) -> Row:
    headers = tuple((name, value) for name, value in message.headers() or ())  # type: ignore[attr-defined]
    timestamp = message.timestamp()[1]  # type: ignore[attr-defined]
    return Row(message.key(), message.value(), timestamp, headers)  # type: ignore[attr-defined]


def differences(expected: list[Row], found: list[Row]) -> list[str]:
    """Sentences, none if both hold the same rows."""
    wanted, there = Counter(expected), Counter(found)
    complaints = []
    twice = {row: count for row, count in there.items() if count > wanted.get(row, 0) > 0}
    for what, rows in (
        ("missing", list((wanted - there).elements())),
        ("more often than they should be", list(twice)),
        ("never written by anybody", [row for row in there if row not in wanted]),
    ):
        if rows:
            complaints.append(f"{len(rows)} rows are {what}, as {sorted(map(str, rows))[:3]}")
    return complaints
