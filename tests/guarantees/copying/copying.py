"""Fills a topic, has it copied by programs that are killed, and compares what came of it."""

from __future__ import annotations

import random
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from guarantees.brokers import Broker, Faults, address, create_topics
from guarantees.clients import is_passing, make_consumer
from guarantees.copying.copier import SUFFIX
from guarantees.programs import Program
from rig.jvm.jars import java
from rig.servers.apache_kafka import kafka_classpath

PARTITIONS = 3
_GROUP = "copiers"
#: Fewer are copied before a fault of the larger gaps comes.
_FEW: Final = 50_000


@dataclass(frozen=True)
class Copy:
    """How much is copied, by whom, and how often they are killed."""

    records: int
    transaction_size: int
    client: str = "librdkafka"
    kills: int = 5
    seed: str = "0"
    broker_faults: bool = False
    #: How the copiers of librdkafka are a group: see `clients.membership`.
    protocol: str = "range"
    timeout_s: float = 120.0


@dataclass
class Copied:
    """What came of it."""

    complaints: list[str] = field(default_factory=list)
    kills: int = 0
    restarts: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def copy(plan: Copy, broker: Broker, directory: Path) -> Copied:
    """Do it; the broker runs already."""
    create_topics(broker, {"source": PARTITIONS, "target": PARTITIONS})
    expected = _fill(address(broker), plan.records)
    if plan.client == "librdkafka":
        expected = [[value + SUFFIX for value in values] for values in expected]
    copied = Copied()
    reader = OutputReader(address(broker))
    copiers = [
        Program(_command(plan, broker, number), directory / "copiers.out")
        for number in range(PARTITIONS)
    ]
    gap_s = (0.5, 2.0) if plan.records < _FEW else (2.0, 6.0)
    faults = Faults(broker, plan.seed, gap_s, at_once=True)
    began = time.monotonic()
    reader.start()
    try:
        for each in copiers:
            each.start()
        if plan.broker_faults:
            faults.start()
        _kill_at_random(plan, copiers, reader, copied)
    finally:
        if plan.broker_faults:
            faults.stop()
        for each in copiers:
            each.kill()
        reader.stop()
        copied.seconds = time.monotonic() - began
        copied.faults = dict(faults.counts)
        copied.restarts = sum(each.restarts for each in copiers)
    copied.complaints += _compare(expected, reader)
    if copied.kills < max(1, plan.kills // 2):  # a quick copy may be over before the last one
        copied.complaints.append(f"only {copied.kills} copiers were killed")
    if plan.broker_faults and not sum(copied.faults.values()):
        copied.complaints.append("the broker had no fault")
    return copied


def _fill(bootstrap: str, records: int) -> list[list[bytes]]:
    """Records 0, 1, ... by turns in all partitions; the values of each."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20}
    )
    values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for number in range(records):
        partition = number % PARTITIONS
        value = b"%d" % number
        values[partition].append(value)
        producer.produce("source", value, value, partition=partition)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
    return values


def _command(plan: Copy, broker: Broker, number: int) -> list[str]:
    size, name = str(plan.transaction_size), f"copier-{number}"
    if plan.client == "librdkafka":
        return [
            *(sys.executable, "-m", "guarantees.copying.copier"),
            *("--bootstrap", address(broker), "--group", _GROUP, "--transactional-id", name),
            *("--source", "source", "--target", "target", "--transaction-size", size),
            *("--protocol", plan.protocol),
        ]
    return [
        *(java(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
        *("-cp", kafka_classpath(), "org.apache.kafka.tools.TransactionalMessageCopier"),
        *("--broker-list", address(broker), "--consumer-group", _GROUP),
        *("--transactional-id", name, "--transaction-size", size, "--use-group-metadata"),
        *("--transaction-timeout", "10000", "--enable-random-aborts"),
        *("--input-topic", "source", "--input-partition", str(number), "--output-topic", "target"),
    ]


def _kill_at_random(
    plan: Copy, copiers: list[Program], reader: OutputReader, copied: Copied
) -> None:
    """Kills are spread over the copy: another one whenever so much more has come through."""
    chance = random.Random(plan.seed)
    deadline = time.monotonic() + plan.timeout_s
    step = plan.records * 0.9 / (plan.kills + 1)
    while reader.count < plan.records:
        if time.monotonic() > deadline:
            copied.complaints.append(f"{reader.count} of {plan.records} after {plan.timeout_s} s")
            return
        if reader.failure is not None:
            return
        for each in copiers:
            each.look_after()
        if copied.kills < plan.kills and reader.count >= step * copied.kills:
            victim = chance.choice(copiers)
            time.sleep(chance.uniform(0, 0.3))
            if victim.kill():
                copied.kills += 1
            victim.start()
        time.sleep(0.02)


class OutputReader(threading.Thread):
    """Reads the committed output beside the copiers."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.count = 0
        self.failure: Exception | None = None
        self._consumer = make_consumer(bootstrap, "reader", enable_partition_eof=True)
        self._consumer.assign([TopicPartition("target", each, 0) for each in range(PARTITIONS)])
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Read what is there, and end."""
        self._stopping.set()
        self.join(60)

    def run(self) -> None:
        try:
            # Once it is told to end, it must still be silent for a while.
            while self._read() or not self._stopping.is_set():
                pass
            self._consumer.close()
        except Exception as failure:
            self.failure = failure

    def _read(self) -> int:
        count = 0
        for message in self._consumer.consume(1000, 0.3):
            error = message.error()
            if error is None:
                self.values[message.partition() or 0].append(message.value() or b"")
                count += 1
            elif error.code() != KafkaError._PARTITION_EOF and not is_passing(error):
                raise KafkaException(error)
        self.count += count
        return count


def _compare(expected: list[list[bytes]], reader: OutputReader) -> list[str]:
    complaints = []
    if reader.failure is not None:
        complaints.append(f"the reader: {reader.failure}")
    for partition, (wanted, found) in enumerate(zip(expected, reader.values, strict=True)):
        if wanted != found:
            place = next(
                (
                    i
                    for i, pair in enumerate(zip(wanted, found, strict=False))
                    if len(set(pair)) > 1
                ),
                min(len(wanted), len(found)),
            )
            complaints.append(
                f"partition {partition}: {len(found)} of {len(wanted)}, {len(set(found))} of them "
                f"different, wrong from {place}: {found[place : place + 3]}, not "
                f"{wanted[place : place + 3]}"
            )
    return complaints
