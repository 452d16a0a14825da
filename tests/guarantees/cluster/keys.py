"""A compacted topic: keys that are written again and again, and deleted; the last value survives.

Each record has a version in its header, which rises with each record of its key, so that a
deletion has one, too.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from guarantees.clients import is_passing, make_consumer

_KEYS: Final = 30
_DELETED: Final = 0.1
_IN_FLIGHT_MAX: Final = 100
_END_WELL_S: Final = 60.0
_VERSION: Final = "version"


@dataclass
class _Key:
    """What was sent of a key."""

    partition: int
    version: int = 0
    acknowledged: int = 0
    #: The versions that were deletions.
    deletions: set[int] = field(default_factory=set)


class KeyWriter(threading.Thread):
    """Writes keys until it is told to stop; then everything must get through."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int, seed: str) -> None:
        super().__init__(daemon=True, name=name)
        self.failure: BaseException | None = None
        self.keys = {b"key-%d" % n: _Key(n % partitions) for n in range(_KEYS)}
        self.topic, self.partitions = topic, partitions
        self._random = random.Random(f"{seed} {name}")
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "message.timeout.ms": 600_000,
                "socket.timeout.ms": 3000,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 5000,
                "log_level": 0,
            }
        )

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                for _ in range(self._random.randint(1, 10)):
                    self._send()
                self._producer.poll(0.05)
                while len(self._producer) > _IN_FLIGHT_MAX and not self._stopping.is_set():
                    self._producer.poll(0.1)
            deadline = time.monotonic() + _END_WELL_S
            while self._producer.flush(1) and time.monotonic() < deadline:
                pass
            if len(self._producer):
                raise TimeoutError(f"{len(self._producer)} keys are not acknowledged")
        except BaseException as failure:
            self.failure = failure

    def _send(self) -> None:
        name = self._random.choice(list(self.keys))
        key = self.keys[name]
        key.version = version = key.version + 1
        is_deletion = self._random.random() < _DELETED
        if is_deletion:
            key.deletions.add(version)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failure = self.failure or RuntimeError(f"{name!r} is refused: {error}")
                return
            key.acknowledged = max(key.acknowledged, version)

        self._producer.produce(
            self.topic,
            None if is_deletion else b"%d" % version + b"." * self._random.choice((0, 500)),
            name,
            partition=key.partition,
            headers=[(_VERSION, b"%d" % version)],
            on_delivery=delivered,
        )


def check_keys(writer: KeyWriter, bootstrap: str, timeout_s: float) -> list[str]:
    """Read all of the topic, as the writer has ended; what is wrong with it."""
    found: dict[bytes, int] = {}
    complaints: list[str] = []
    consumer = make_consumer(bootstrap, "keys", enable_partition_eof=True)
    deadline = time.monotonic() + timeout_s
    missing = set(range(writer.partitions))
    consumer.assign([TopicPartition(writer.topic, each, 0) for each in missing])
    try:
        while missing and time.monotonic() < deadline:
            missing -= _read(consumer, found, complaints)
    finally:
        consumer.close()
    if missing:
        return [f"the end of {writer.topic} {sorted(missing)} cannot be reached"]
    for name, key in writer.keys.items():
        version = found.get(name)
        is_gone = version is None and key.acknowledged in key.deletions
        if version != key.acknowledged and not is_gone and key.acknowledged:
            complaints.append(f"{name!r} is {version}, and {key.acknowledged} was acknowledged")
    return complaints


def _read(consumer: Consumer, found: dict[bytes, int], complaints: list[str]) -> set[int]:
    """One poll; the partitions whose end it has come to."""
    ended = set()
    for message in consumer.consume(1000, 0.5):
        error = message.error()
        if error is None:
            name, version = message.key(), int(dict(message.headers())[_VERSION])
            if version <= found.get(name, 0):
                complaints.append(f"{name!r} has {version} after {found[name]}")
            found[name] = version
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(int(message.partition() or 0))
        elif not is_passing(error):
            raise KafkaException(error)
    return ended
