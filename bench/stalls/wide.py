"""Thousands of partitions in one request, one session, or one transaction."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

from bench.brokers import require_no_error
from bench.load import batch_of, request_frame
from bench.stalls.neighbour import Neighbour
from bench.transactional_client import TransactionalClient

_METADATA, _PRODUCE, _FETCH = 12, 13, 17
_METADATA_PAUSE_S = 0.05
_TRANSACTION = 2000
_HELD_MS = 500
_FETCH_BYTES = 1 << 20
_random = random.Random(1)
_numbers = itertools.count()


class WideSession(Neighbour):
    """A fetch session of 5,000 partitions with a trickle of records: a mirror, or Connect."""

    name = "wide_session"

    def prepare(self) -> None:
        topic, count = self.place.wide_topic, self.place.wide
        self._topic_id = self.broker.topic_id(topic)
        self._batch = batch_of(300)
        self._reader, self._writer = self.place.connect(), self.place.connect()
        self._offsets = [self.broker.end_offset(topic, 0)] * count
        everything = self._fetch(0, 0, range(count), max_wait=0)
        self._session_id, self._epoch = everything.session_id, 1
        self._take(everything)

    def act(self) -> None:
        """One record to anywhere, while the fetch waits for it."""
        partition = _random.randrange(self.place.wide)
        self._send_fetch(self._session_id, self._epoch, self._moved, _HELD_MS)
        answer = self._writer.ask(
            "produce",
            _PRODUCE,
            acks=1,
            timeout=30_000,
            topic_data=[
                {
                    "topic_id": self._topic_id,
                    "partition_data": [{"index": partition, "records": self._batch}],
                }
            ],
        )
        require_no_error(answer.responses[0].partition_responses[0])
        answer = self._reader.receive("fetch", _FETCH)
        require_no_error(answer)
        self._epoch += 1
        self._take(answer)

    def _take(self, answer: Any) -> None:
        """What comes next of the partitions that the answer holds records of."""
        self._moved = []
        for topic in answer.responses:
            for each in topic.partitions:
                end = each.high_watermark
                if end > self._offsets[each.partition_index]:
                    self._offsets[each.partition_index] = end
                    self._moved.append(each.partition_index)

    def _fetch(self, session_id: int, epoch: int, partitions: Any, max_wait: int) -> Any:
        self._send_fetch(session_id, epoch, partitions, max_wait)
        return self._reader.receive("fetch", _FETCH)

    def _send_fetch(self, session_id: int, epoch: int, partitions: Any, max_wait: int) -> None:
        asked = [
            {
                "partition": each,
                "current_leader_epoch": -1,
                "fetch_offset": self._offsets[each],
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": _FETCH_BYTES,
            }
            for each in partitions
        ]
        self._reader.send(
            "fetch",
            _FETCH,
            max_wait=max_wait,
            min_bytes=1,
            max_bytes=50 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=[{"topic_id": self._topic_id, "partitions": asked}] if asked else [],
        )

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


class WideMetadata(Neighbour):
    """Metadata of 5,000 partitions 20 times a second: clients that come back after a restart."""

    name = "wide_metadata"

    def prepare(self) -> None:
        topics = [{"name": self.place.wide_topic}]
        self._frame = request_frame("metadata", _METADATA, topics=topics)
        self._client = self.place.connect()

    def act(self) -> None:
        due = time.monotonic() + _METADATA_PAUSE_S
        self._client.send_bytes(self._frame)
        self._client.receive_frame()
        time.sleep(max(0.0, due - time.monotonic()))

    def close(self) -> None:
        self._client.close()


class WideTransaction(Neighbour):
    """A transaction over 2,000 partitions (v2: Produce adds them): a Streams application."""

    name = "wide_transaction"
    acts_once = True

    def prepare(self) -> None:
        self._topic = self.place.wide_topic
        self._client = self.place.connect()
        self._producer = TransactionalClient(self.broker, self._client)

    def act(self) -> None:
        count = min(self.place.scaled(_TRANSACTION), self.place.wide)
        self._producer.transaction(self._topic, range(count), at_once=100)

    def close(self) -> None:
        self._client.close()


ROWS: tuple[type[Neighbour], ...] = (WideSession, WideMetadata, WideTransaction)
