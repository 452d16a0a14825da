"""A `__consumer_offsets` in memory: what a coordinator appends can be read by the next one."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from coordination.settings import Settings
from drumlin.clock import Clock, ManualClock
from drumlin.config.keys import group_keys
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.group_context import Topic
from drumlin.coordination.shards.state_topic import Confirmation, StateTopic
from drumlin.metadata.names import GROUP_METADATA as OFFSETS_TOPIC
from drumlin.records.batch.batch import parse_header
from drumlin.records.plain.record import Record, decode_records
from drumlin.storage.producers.verification import NOT_REQUIRED, Verification
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The default of max.message.bytes.
MESSAGE_BYTES_MAX = 1_048_588
#: Of the topic "t", where a test does not bring topics of its own.
TOPIC_ID = UUID(int=7)


class MemoryLog:
    """Partitions as lists of batches; appending can be made to wait, or to fail."""

    def __init__(self, partition_count: int = 4) -> None:
        self.partition_count: int | None = partition_count
        self.batches: dict[int, list[bytes]] = {}
        self.error: ErrorCode | None = None
        self.confirmations: list[Confirmation] | None = None
        self.gate = threading.Event()
        """Reading waits for it."""
        self.gate.set()
        self.broken = False

    def append(
        self,
        partition: int,
        batch: bytearray,
        verification: Verification | None = NOT_REQUIRED,
        reserve_bytes: int = 0,
    ) -> None:
        if self.error is not None:
            raise KafkaError(self.error)
        if len(batch) + reserve_bytes > MESSAGE_BYTES_MAX:
            raise KafkaError(ErrorCode.message_too_large)
        self.batches.setdefault(partition, []).append(bytes(batch))
        if self.confirmations is not None:
            self.confirmations.append(asyncio.get_running_loop().create_future())

    def find(self, partition: int) -> MemoryPartition:
        return MemoryPartition(self, partition)

    def read(self, partition: int) -> Iterator[bytes]:
        self.gate.wait(10)
        if self.broken:
            raise OSError("a broken disk")
        yield from list(self.batches.get(partition, []))

    def records(self) -> list[Record]:
        return [
            record
            for partition in sorted(self.batches)
            for batch in self.batches[partition]
            if not parse_header(batch, 0).is_control
            for record in decode_records(batch)
        ]


class MemoryPartition(NamedTuple):
    """A partition of a `MemoryLog`, as coordinators write it."""

    log: MemoryLog
    index: int

    @property
    def batch_bytes_max(self) -> int:
        return MESSAGE_BYTES_MAX

    @property
    def awaits_confirmation(self) -> bool:
        return self.log.confirmations is not None

    def confirm(self) -> Confirmation:
        """Confirms what was appended last, when the test does so."""
        assert self.log.confirmations is not None
        return self.log.confirmations[-1]

    def append_internal(
        self,
        batch: bytearray,
        now_ms: int,
        verification: Verification | None = NOT_REQUIRED,
        reserve_bytes: int = 0,
    ) -> None:
        self.log.append(self.index, batch, verification, reserve_bytes)


class FullLog(MemoryLog):
    """It takes so many batches, then none."""

    room = 1_000

    def append(self, *args: Any, **how: Any) -> None:
        if not self.room:
            raise KafkaError(ErrorCode.kafka_storage_error)
        self.room -= 1
        super().append(*args, **how)


class KnownTopics:
    """Topics by name, each with an id of its own."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        self._deleted: set[UUID] = set()

    def put(self, name: str, partition_count: int, topic_id: UUID | None = None) -> Topic:
        """Create it, or give it more partitions."""
        known = self._topics.get(name)
        if topic_id is None:
            topic_id = uuid.uuid5(uuid.NAMESPACE_OID, name) if known is None else known.topic_id
        topic = self._topics[name] = Topic(topic_id, name, partition_count)
        return topic

    def remove(self, name: str) -> Topic:
        topic = self.lose(name)
        self._deleted.add(topic.topic_id)
        return topic

    def lose(self, name: str) -> Topic:
        """It is not there, and was not deleted."""
        return self._topics.pop(name)

    def was_deleted(self, topic_id: UUID) -> bool:
        return topic_id in self._deleted and self.by_id(topic_id) is None

    def was_any_deleted(self) -> bool:
        return bool(self._deleted)

    def by_name(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: UUID) -> Topic | None:
        return next((each for each in self._topics.values() if each.topic_id == topic_id), None)

    def names(self) -> list[str]:
        return list(self._topics)


def default_setting(group_id: str, key: str) -> int | str | bool:
    """No group has a configuration of its own."""
    declared = group_keys()[key]
    value = declared.parse(declared.default or "")
    assert isinstance(value, int | str)
    return value


def new_coordinator(
    log: MemoryLog,
    settings: Settings | None = None,
    clock: Clock | None = None,
    topics: KnownTopics | None = None,
) -> GroupCoordinator:
    """A coordinator over the log that leads nothing yet."""

    async def create_topic() -> None:
        log.partition_count = 4
        lead_all(coordinator, log)

    if topics is None:
        topics = KnownTopics()
        topics.put("t", 400, TOPIC_ID)
    coordinator = GroupCoordinator(
        settings or Settings(),
        clock or ManualClock(),
        StateTopic(
            OFFSETS_TOPIC,
            log.find,
            log.read,
            lambda: log.partition_count,
            create_topic,
        ),
        topics,
        default_setting,
    )
    return coordinator


def lead_all(coordinator: GroupCoordinator, log: MemoryLog) -> None:
    for partition in range(log.partition_count or 0):
        coordinator.become_leader(partition, 0)


def wake(coordinator: GroupCoordinator) -> None:
    """All deadlines that have come are met, however many turns that takes."""
    while coordinator._alarm.wake():
        pass
