"""The broker under proof: Drumlin, or Apache Kafka to compare with, and what is done to it."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.apache_kafka import ApacheKafka
from rig.waiting import wait_until

Broker = DrumlinServer | ApacheKafka

SETTINGS = {
    # Segments of a second or two and an eager cleaner: what is kept of transactions, offsets and
    # groups is compacted while they are at work.
    "log.roll.ms": "2000",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": "500",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "2000",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
}


def make_broker(kind: str, directory: Path) -> Broker:
    """A broker that is not started yet; `kind` is `drumlin` or `kafka`."""
    directory.mkdir(parents=True, exist_ok=True)
    if kind == "kafka":
        return ApacheKafka(directory, SETTINGS)
    return DrumlinServer(directory, SETTINGS)


def address(broker: Broker) -> str:
    return f"127.0.0.1:{broker.port}"


def create_topics(
    broker: Broker, topics: dict[str, int], configs: dict[str, dict[str, str]] | None = None
) -> None:
    """Topics and their numbers of partitions; they are ready to be written when this returns."""
    admin = AdminClient({"bootstrap.servers": address(broker)})
    known = configs or {}
    new = [NewTopic(name, count, 1, config=known.get(name, {})) for name, count in topics.items()]
    for created in admin.create_topics(new).values():
        created.result(20)
    wait_until(lambda: topics.keys() <= admin.list_topics(timeout=10).topics.keys(), "topics")


class Faults:
    """Does to a broker what happens to brokers, one fault after the other, by a seed."""

    def __init__(
        self, broker: Broker, seed: str, gap_s: tuple[float, float], *, at_once: bool = False
    ) -> None:
        """at_once: there is no gap before the first, so that no run is too short for it."""
        self.counts: Counter[str] = Counter()
        #: A client sets it when it asks for a commit: the moment at which a kill hurts most.
        self.commit_asked = threading.Event()
        self._broker = broker
        self._random = random.Random(seed)
        self._gap_s = gap_s
        self._first_gap_s = (0.0, 0.0) if at_once else gap_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more of them; the broker is up when this returns."""
        self._stop.set()
        self._thread.join(120)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            gap_s = self._first_gap_s
            while not self._stop.wait(self._random.uniform(*gap_s)):
                fault = self._random.choice(("kill", "kill", "pause", "pause", "restart"))
                getattr(self, f"_{fault}")()
                self.counts[fault] += 1
                gap_s = self._gap_s
        except BaseException as failure:
            self._failure = failure

    def _kill(self) -> None:
        if self._random.random() < 0.7:
            self.commit_asked.clear()
            self.commit_asked.wait(1.0)
            self._stop.wait(self._random.uniform(0, 0.01))
        self._broker.kill()
        self._stop.wait(self._random.choice((0, 0, 0.5)))
        self._broker.start()

    def _restart(self) -> None:
        self._broker.restart()

    def _pause(self) -> None:
        os.kill(self._broker.pid, signal.SIGSTOP)
        try:
            # Some of the clients lose patience after a second, and send again what has arrived.
            self._stop.wait(self._random.choice((0.2, 0.8, 1.5, 2.5)))
        finally:
            os.kill(self._broker.pid, signal.SIGCONT)
