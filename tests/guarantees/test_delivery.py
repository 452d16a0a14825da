"""At most once and at least once, while broker and consumers are killed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from guarantees.brokers import Faults, address, create_topics
from guarantees.clients import is_passing, make_consumer, membership
from rig.brokers.drumlin_server import DrumlinServer
from rig.depth import so_many
from rig.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.slow]

_FAULTS_S = so_many(4, 6)
_TOPIC = "deliveries"


class Producing(threading.Thread):
    """Sends numbers until it is stopped; knows which of them were acknowledged."""

    def __init__(self, bootstrap: str, **settings: object) -> None:
        super().__init__(daemon=True)
        self.sent = 0
        self.acknowledged: set[int] = set()
        self._stopping = threading.Event()
        named = {key.replace("_", "."): value for key, value in settings.items()}
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **named})

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)

    def run(self) -> None:
        while not self._stopping.wait(0.002):
            number = self.sent

            def delivered(error: KafkaError | None, _: Message, number: int = number) -> None:
                if error is None:
                    self.acknowledged.add(number)

            self._producer.produce(_TOPIC, b"%d" % number, on_delivery=delivered)
            self.sent += 1
            self._producer.poll(0)
        self._producer.flush(30)


class Processing(threading.Thread):
    """A consumer that commits before it processes, or after; it vanishes and comes back."""

    def __init__(self, bootstrap: str, processed: Counter[int], commits_first: bool) -> None:
        super().__init__(daemon=True)
        self.failure: BaseException | None = None
        self._address = bootstrap
        self._processed = processed
        self._commits_first = commits_first
        self._stopping = threading.Event()
        self._batch: list[Message] = []

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._live(1.5)
        except BaseException as failure:
            self.failure = failure

    def _live(self, seconds: float) -> None:
        """One consumer; at its end it vanishes in the midst of its work."""
        consumer = make_consumer(
            self._address,
            "processing",
            auto_offset_reset="earliest",
            **membership("range"),
        )
        consumer.subscribe([_TOPIC], on_revoke=self._revoked)
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline and not self._stopping.is_set():
                self._read(consumer)
                if self._batch and self._commits_first:
                    if self._commit(consumer):
                        self._process()
                elif self._batch:
                    self._process()
                    self._commit(consumer)
                self._batch = []
        finally:
            consumer.close()

    def _revoked(self, *_: object) -> None:
        """What is not committed yet belongs to the member that comes next."""
        self._batch = []

    def _read(self, consumer: Consumer) -> None:
        while len(self._batch) < 50:
            message = consumer.poll(0.1)
            if message is None:
                return
            error = message.error()
            if error is None:
                self._batch.append(message)
            elif not is_passing(error):
                raise KafkaException(error)

    def _commit(self, consumer: Consumer) -> bool:
        """Whether it is certain that the offsets are committed."""
        try:
            done = consumer.commit(asynchronous=False)
        except KafkaException as failure:
            if not is_passing(failure.args[0]):
                raise
            return False
        return all(each.error is None for each in done or [])

    def _process(self) -> None:
        for message in self._batch:
            self._processed[int(message.value() or b"")] += 1


@contextmanager
def _processing(
    broker: DrumlinServer, commits_first: bool, **settings: object
) -> Iterator[tuple[Producing, Counter[int]]]:
    """Producer and two consumers beside faults; both are running when the block begins."""
    create_topics(broker, {_TOPIC: 3})
    processed: Counter[int] = Counter()
    producing = Producing(address(broker), **settings)
    consumers = [Processing(address(broker), processed, commits_first) for _ in range(2)]
    faults = Faults(broker, f"delivery {commits_first}", (0.3, 1.5))
    for each in (producing, *consumers):
        each.start()
    faults.start()
    time.sleep(_FAULTS_S)  # that long faults happen; nothing is waited for
    wait_until(lambda: sum(faults.counts.values()) >= 2, "two faults", 30)
    faults.stop()
    producing.stop()
    try:
        yield producing, processed
    finally:
        for each in consumers:
            each.stop()
    assert [each.failure for each in consumers] == [None, None]
    assert sum(faults.counts.values()) >= 2


@pytest.mark.deep
def test_at_most_once_has_no_duplicates(broker: DrumlinServer) -> None:
    """No acknowledgement, no retry, and offsets committed before the work is done."""
    once = {"acks": 0, "retries": 0, "enable_idempotence": False}
    with _processing(broker, commits_first=True, **once) as (producing, processed):
        wait_until(lambda: len(processed) > producing.sent // 10, "most of them", 60)
    assert [number for number, count in processed.items() if count > 1] == []


def test_at_least_once_has_no_loss(broker: DrumlinServer) -> None:
    """Acknowledged by all, sent again until it is, and offsets committed after the work."""
    again = {"acks": "all", "enable_idempotence": False, "message_timeout_ms": 60_000}
    with _processing(broker, commits_first=False, **again) as (producing, processed):
        assert len(producing.acknowledged) > 100
        wait_until(lambda: producing.acknowledged <= processed.keys(), "all of them", 60)
