"""A topic with a history of puts and deletes, committed or aborted; and its twin in dicts.

The first part of the log is compacted by the real cleaner. Then cleaning ends and the second part
is written: any moment in it has an exact state.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from confluent_kafka import Message, Producer

from rig.data import compacted_topic
from rig.waiting import wait_until
from spark.topics import Topic

PARTITIONS = 3
KEYS = 40

#: By partition and key.
State = dict[tuple[int, bytes], bytes]


@dataclass(frozen=True)
class Written:
    """A record that a transaction has written, and where."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


@dataclass
class History:
    """What was committed, and what only takes up offsets and times."""

    topic: Topic
    compacted_end: dict[int, int] = field(default_factory=dict)  # any moment from here on is exact
    visible: list[Written] = field(default_factory=list)  # committed
    committed: list[Written] = field(default_factory=list)  # and with a key
    everything: list[Written] = field(default_factory=list)

    def state(self, ends: dict[int, int]) -> State:
        """The table that the log up to these offsets is."""
        found: State = {}
        for each in self.between({}, ends):
            assert each.key is not None
            if each.value is None:
                found.pop((each.partition, each.key), None)
            else:
                found[each.partition, each.key] = each.value
        return found

    def between(self, starts: dict[int, int], ends: dict[int, int]) -> Iterator[Written]:
        """The committed records with keys, in offset order within a partition."""
        for each in sorted(self.committed, key=lambda one: one.offset):
            if starts.get(each.partition, 0) <= each.offset < ends[each.partition]:
                yield each

    def at_time(self, timestamp_ms: int) -> dict[int, int]:
        """Where each partition has its first record that is younger: no marker, nothing aborted."""
        ends = self.end()
        for each in self.visible:
            if each.timestamp_ms > timestamp_ms:
                ends[each.partition] = min(ends[each.partition], each.offset)
        return ends

    def end(self) -> dict[int, int]:
        return {
            partition: max(
                (each.offset + 1 for each in self.everything if each.partition == partition),
                default=0,
            )
            for partition in range(PARTITIONS)
        }


class Writer:
    """Writes random transactions, and remembers what came of them."""

    def __init__(self, history: History, seed: int) -> None:
        self._history = history
        self._random = random.Random(seed)
        # Markers have the time of writing: younger than all records, and they count for nothing.
        self._time_ms = int(time.time() * 1000) - 600_000
        name = history.topic.name
        settings = {"bootstrap.servers": history.topic.address, "transactional.id": name}
        self._producer = Producer(settings)
        self._producer.init_transactions(30)

    def write(self, transactions: int) -> None:
        for _ in range(transactions):
            written: list[Written] = []
            self._producer.begin_transaction()
            for _ in range(self._random.randrange(1, 30)):
                self._put(written)
            if self._random.random() < 0.3:
                assert self._producer.flush(30) == 0
                self._producer.abort_transaction(30)
            else:
                self._producer.commit_transaction(30)
                self._history.visible += written
                self._history.committed += [each for each in written if each.key is not None]
            self._history.everything += written

    def _put(self, written: list[Written]) -> None:
        partition = self._random.randrange(PARTITIONS)
        key = b"key-%d" % self._random.randrange(KEYS)
        value = None if self._random.random() < 0.25 else b"%d-" % len(written) + self._filling()
        self._time_ms += self._random.randrange(-20, 40)
        timestamp_ms = self._time_ms

        def note(error: object, message: Message) -> None:
            assert error is None, error
            written.append(Written(partition, message.offset(), key, value, timestamp_ms))

        name = self._history.topic.name
        self._producer.produce(
            name, value, key, partition=partition, timestamp=timestamp_ms, on_delivery=note
        )

    def _filling(self) -> bytes:
        return self._random.randbytes(self._random.randrange(120))


def compacted_history(address: str) -> History:
    """A history whose first part was compacted; nothing changes any more."""
    topic = Topic(address, PARTITIONS)
    compacted_topic.create(address, topic.name, PARTITIONS, internal_segment_bytes="4000")
    history = History(topic)
    writer = Writer(history, seed=1)
    writer.write(60)
    wait_until(
        lambda: len(compacted_topic.read(address, topic.name)) < len(history.committed) // 6,
        "the cleaner to have been there",
        compacted_topic.CLEANED_S,
    )
    compacted_topic.alter(address, topic.name, {"cleanup.policy": "delete", "retention.ms": "-1"})
    history.compacted_end = history.end()
    writer.write(40)
    return history
