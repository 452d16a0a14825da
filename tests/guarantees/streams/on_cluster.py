"""Counts on three brokers while these are restarted: two instances, each with standby replicas."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, Literal

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from guarantees.clients import make_consumer
from guarantees.streams.counting import compare, make_application, read_counts
from rig.brokers.drumlin_cluster import DrumlinCluster
from rig.waiting import wait_until

SETTINGS: Final = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
}
_PARTITIONS: Final = 3
_PAUSE_S: Final = 0.01
_TIMEOUT_S: Final = 120.0

#: What happens to which broker.
Fault = tuple[Literal["restart", "kill"], int]


@dataclass
class Outcome:
    """What came of it."""

    complaints: list[str] = field(default_factory=list)
    words: int = 0
    #: Instances that have ended with an error.
    ended: int = 0


class _Writer(threading.Thread):
    """Writes words until it is stopped, some of them often."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.written: Counter[str] = Counter()
        self.failures: list[str] = []
        self._stopping = threading.Event()
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        self._producer = Producer({**settings, "linger.ms": 5})

    def run(self) -> None:
        chance, number = Random("words"), 0
        while not self._stopping.wait(_PAUSE_S):
            word = f"word-{int(chance.paretovariate(0.5)) % 97}"
            self._producer.produce(
                "words",
                word,
                partition=number % _PARTITIONS,
                on_delivery=lambda error, _: error and self.failures.append(str(error)),
            )
            self._producer.poll(0)
            self.written[word] += 1
            number += 1
        if self._producer.flush(60):
            self.failures.append("not all was written in a minute")

    def stop(self) -> None:
        self._stopping.set()
        self.join(90)


def count_on_cluster(cluster: DrumlinCluster, directory: Path, faults: Sequence[Fault]) -> Outcome:
    """Do it; the cluster runs already."""
    admin = AdminClient({"bootstrap.servers": cluster.address})
    topics = [NewTopic(name, _PARTITIONS, 3) for name in ("words", "counts")]
    for each in admin.create_topics(topics).values():
        each.result(30)
    cluster.await_whole()
    applications = [
        make_application(cluster.address, directory / str(number), replicas=3, standbys=1)
        for number in range(2)
    ]
    consumer = make_consumer(cluster.address, "counts-reader")
    consumer.assign([TopicPartition("counts", each, 0) for each in range(_PARTITIONS)])
    found: dict[str, list[int]] = defaultdict(list)
    writer, outcome = _Writer(cluster.address), Outcome()
    try:
        for each in applications:
            each.start()
        writer.start()
        wait_until(lambda: read_counts(consumer, found), "the first counts", _TIMEOUT_S)
        for kind, node_id in faults:
            _inflict(cluster, kind, node_id)
            cluster.await_whole()
            wait_until(lambda: read_counts(consumer, found), "counts to go on", _TIMEOUT_S)
        writer.stop()
        deadline = time.monotonic() + _TIMEOUT_S
        while sum(map(len, found.values())) < writer.written.total():
            if time.monotonic() > deadline:
                break
            read_counts(consumer, found)
        while read_counts(consumer, found):  # what comes after the end came twice
            pass
    finally:
        for each in applications:
            each.look_after()
            outcome.ended += each.restarts
            each.kill()
        consumer.close()
    outcome.words = writer.written.total()
    outcome.complaints = writer.failures + compare(writer.written, found)
    return outcome


def _inflict(cluster: DrumlinCluster, kind: str, node_id: int) -> None:
    broker = cluster.brokers[node_id]
    if kind == "kill":
        broker.kill()
    else:
        broker.stop()
    broker.start()
