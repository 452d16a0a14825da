"""Logs that are long, cold, or written by thousands of producers."""

from __future__ import annotations

import os
from typing import Any

from bench.brokers import require_no_error
from bench.load import Load, batch_of, first_answer
from bench.produce import produce_frame
from bench.stalls.neighbour import TOPIC_RESOURCE, Neighbour, Place
from bench.stalls.segments import keep_segment, rolling_topic, timestamps, topic_of_segments
from bench.transactional_client import TransactionalClient
from drumlin.records.plain.record import Record, encode_batch
from rig.data.raw import RawClient
from rig.waiting import wait_until

_PAIRS, _PARTITIONS_OF_PRODUCER = 20_000, 100
_PRODUCERS_PER_ROLL = 20
_PRODUCE, _FETCH, _INIT_PRODUCER_ID, _LIST_OFFSETS, _DELETE_TOPICS = 12, 12, 4, 8, 6
_EARLIEST = -2
_READ_COMMITTED = 1
_ABORTED = 1000
_EXPIRED = 2000
_READERS, _COLD_BYTES = 16, 32 << 20
_COLD_BATCH_BYTES = 256 << 10
_FETCH_BYTES = 1 << 20
_LIMIT_S = 120


def fetch_fields(topic: str, partition: int, offset: int, **fields: Any) -> dict[str, Any]:
    """The fields of a Fetch of one partition, without a session."""
    asked = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": _FETCH_BYTES,
    }
    return {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": _FETCH_BYTES,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [asked]}],
        **fields,
    }


def forget_pages(place: Place) -> None:
    """Have the kernel drop what it holds of the broker's files, so that they are read again."""
    for path in place.data.rglob("*"):
        if not path.is_file():
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # pages that are not written yet would stay
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


class ManyProducers(Neighbour):
    """New producers, each to 100 partitions, beside 20,000 such pairs: short jobs."""

    name = "producers"
    pair = "producers"

    def prepare(self) -> None:
        settings = {"segment.ms": str(_PRODUCERS_PER_ROLL * 10)}
        self._topic = self.place.led_topic(_PARTITIONS_OF_PRODUCER, **settings)
        self._timestamps = timestamps(10_000_000)
        self._client = self.place.connect()
        for _ in range(self.place.scaled(_PAIRS) // _PARTITIONS_OF_PRODUCER):
            self.act()

    def act(self) -> None:
        producer = self._client.ask(
            "init_producer_id",
            _INIT_PRODUCER_ID,
            transactional_id=None,
            transaction_timeout=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        if producer.error_code.name == "coordinator_load_in_progress":
            return
        require_no_error(producer)
        batch = bytes(
            encode_batch(
                [Record(0, next(self._timestamps), None, b"v" * 100)],
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=0,
            )
        )
        data = [{"index": each, "records": batch} for each in range(_PARTITIONS_OF_PRODUCER)]
        answer = self._client.ask(
            "produce",
            _PRODUCE,
            acks=1,
            timeout=60_000,
            topic_data=[{"name": self._topic, "partition_data": data}],
        )
        require_no_error(answer.responses[0].partition_responses[0])

    def close(self) -> None:
        self._client.close()


class ColdReaders(Neighbour):
    """16 consumers read old data that is not in the page cache any more."""

    name = "cold_readers"
    pair = "disk"

    def prepare(self) -> None:
        self._count = 0
        self._topics = [self._filled() for _ in range(_READERS)]
        self._clients = [self.place.connect() for _ in self._topics]

    def _filled(self) -> str:
        topic = self.place.led_topic(1)
        frame = produce_frame(self.broker, topic, batch_of(_COLD_BATCH_BYTES, 1000))
        answer, _ = first_answer(self.broker.port, frame)
        load = Load(self.broker.dial, [frame], 5, len(answer))
        load.run(3600, self.place.scaled(_COLD_BYTES) // _COLD_BATCH_BYTES)
        load.close()
        self._end = self.broker.end_offset(topic)
        return topic

    def before_round(self) -> None:
        forget_pages(self.place)
        self._offsets = [0] * _READERS

    def act(self) -> None:
        for client, topic, offset in zip(self._clients, self._topics, self._offsets, strict=True):
            client.send("fetch", _FETCH, **fetch_fields(topic, 0, offset))
        for number, client in enumerate(self._clients):
            partition = client.receive("fetch", _FETCH).responses[0].partitions[0]
            require_no_error(partition)
            records = bytes(partition.records or b"")
            self._offsets[number] += _record_count(records)
        if self._offsets[0] >= self._end:
            forget_pages(self.place)
            self._offsets = [0] * _READERS

    def close(self) -> None:
        for client in self._clients:
            client.close()


def _record_count(records: bytes) -> int:
    """The number of records, by the headers of whole batches."""
    position = count = 0
    while position + 61 <= len(records):
        end = position + 12 + int.from_bytes(records[position + 8 : position + 12], "big")
        if end > len(records):
            break
        count += int.from_bytes(records[position + 57 : position + 61], "big")
        position = end
    return count


class LaggingReader(Neighbour):
    """A read_committed consumer that lags 1,000 segments, each with an aborted transaction."""

    name = "lagging_reader"
    pair = "disk"
    is_warmed = False  # what is learned of a segment's transactions is learned once

    def prepare(self) -> None:
        self._topic = rolling_topic(self.place)
        with self.place.connect() as client:
            producer = TransactionalClient(self.broker, client)
            for each in timestamps(self.place.scaled(_ABORTED)):
                producer.transaction(self._topic, commits=False, timestamp_ms=each)
        keep_segment(self.place, self._topic)
        self._client: RawClient = self.place.connect()

    def before_round(self) -> None:
        forget_pages(self.place)

    def act(self) -> None:
        fields = fetch_fields(self._topic, 0, 0, isolation_level=_READ_COMMITTED)
        answer = self._client.ask("fetch", _FETCH, **fields)
        require_no_error(answer.responses[0].partitions[0])

    def close(self) -> None:
        self._client.close()


class SegmentsExpire(Neighbour):
    """`retention.ms` is lowered, so that 2,000 segments expire at once."""

    name = "segments_expire"
    pair = "retention"
    acts_once = True

    def before_round(self) -> None:
        self._topic = topic_of_segments(self.place, self.place.scaled(_EXPIRED))

    def act(self) -> None:
        self.place.alter(TOPIC_RESOURCE, self._topic, retention_ms="3600000")
        wait_until(self._is_short, f"{self.broker.name} to expire segments", _LIMIT_S)

    def _is_short(self) -> bool:
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": _EARLIEST}
        answer = self.broker.ask(
            "list_offsets",
            _LIST_OFFSETS,
            replica_id=-1,
            topics=[{"name": self._topic, "partitions": [partition]}],
        )
        return bool(answer.topics[0].partitions[0].offset >= self.place.scaled(_EXPIRED) - 1)

    def after_round(self) -> None:
        topics = [{"name": self._topic}]
        self.broker.ask("delete_topics", _DELETE_TOPICS, timeout=60_000, topics=topics)


ROWS: tuple[type[Neighbour], ...] = (
    ManyProducers,
    ColdReaders,
    LaggingReader,
    SegmentsExpire,
)
