"""Members of a share group: every record is delivered, and none is accepted twice.

A record that was accepted, and of which the broker has said so, is never available again: if a
second acceptance succeeds, the first was forgotten. What was delivered without an acceptance may
come again.
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterable

from confluent_kafka import KafkaException, ShareConsumer

from guarantees.clients import is_passing

Place = tuple[str, int, int]


class Deliveries:
    """What all members of one group were given, and have accepted for certain."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.delivered: dict[tuple[str, int], set[int]] = defaultdict(set)
        self.accepted: set[Place] = set()
        self.twice: set[Place] = set()

    def note_delivered(self, places: Iterable[Place]) -> None:
        with self._lock:
            for topic, partition, offset in places:
                self.delivered[topic, partition].add(offset)

    def note_accepted(self, places: Iterable[Place]) -> None:
        with self._lock:
            for place in places:
                if place in self.accepted:
                    self.twice.add(place)
                self.accepted.add(place)

    def lacking(self, written: dict[tuple[str, int], set[int]]) -> dict[tuple[str, int], int]:
        """Of what was written, how much was never delivered."""
        with self._lock:
            lacking = {at: len(found - self.delivered[at]) for at, found in written.items()}
        return {at: count for at, count in lacking.items() if count}


class Sharer(threading.Thread):
    """One member, which comes and goes."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        group: str,
        topic: str,
        deliveries: Deliveries,
        seed: str,
    ) -> None:
        super().__init__(daemon=True, name=name)
        self.failure: BaseException | None = None
        self._address, self._group, self._topic = bootstrap, group, topic
        self._deliveries = deliveries
        self._random = random.Random(f"{seed} {name}")
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._live()
        except BaseException as failure:
            self.failure = failure

    def _live(self) -> None:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": self._address,
                "group.id": self._group,
                "share.acknowledgement.mode": "explicit",
                "socket.timeout.ms": 4000,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 5000,
                "log_level": 0,
            }
        )
        try:
            consumer.subscribe([self._topic])
            for _ in range(self._random.randint(20, 100)):
                if self._stopping.is_set():
                    break
                self._poll(consumer)
        finally:
            consumer.close()

    def _poll(self, consumer: ShareConsumer) -> None:
        places: list[Place] = []
        try:
            for message in consumer.poll(0.2):
                error = message.error()
                if error is not None:
                    if not is_passing(error):
                        raise KafkaException(error)
                    continue
                places.append((message.topic(), message.partition(), message.offset()))
                consumer.acknowledge(message)
            self._deliveries.note_delivered(places)
            if not places:
                return
            answers = consumer.commit_sync(5.0)
        except KafkaException as failure:
            if not is_passing(failure.args[0]):
                raise
            return
        right = {(at.topic, at.partition) for at, error in (answers or {}).items() if error is None}
        self._deliveries.note_accepted(each for each in places if each[:2] in right)
