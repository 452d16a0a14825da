"""Monitoring programs: the lag that they tell is what groups have still to read, and so is ours."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ecosystem.monitors.programs import (
    BURROW,
    KAFKA_EXPORTER,
    KMINION,
    Burrow,
    Exporter,
    KafkaExporter,
    KMinion,
    KMinionOfOffsetsTopic,
    Lags,
    Monitor,
)
from rig.brokers.drumlin_server import running_server
from rig.servers.running import running
from rig.waiting import wait_until

#: Ways to commit: as a member by the classic protocol, by the consumer protocol, in transactions.
_KINDS = ("classic", "consumer", "transactional")
_TRIED = "the lag of groups, which `drumlin groups describe` tells as well"
MONITORS = {
    KafkaExporter: ("kafka_exporter", KAFKA_EXPORTER, _TRIED),
    KMinion: ("kminion", KMINION, f"{_TRIED}; scrape mode adminApi"),
    KMinionOfOffsetsTopic: ("kminion", KMINION, f"{_TRIED}; scrape mode offsetsTopic"),
    Burrow: ("Burrow", BURROW, _TRIED),
}


class Watched:
    """A topic, and a group of each kind that reads it, as whoever has these settings may do."""

    def __init__(self, topic: str, settings: Mapping[str, Any], kinds: Sequence[str]) -> None:
        self.topic = topic
        self._settings = dict(settings)
        admin = AdminClient(self._settings)
        admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(60)
        self._producer = Producer(self._settings | {"transactional.id": topic})
        self._producer.init_transactions()
        self.append(100)
        start = TopicPartition(topic, 2, 50)
        admin.delete_records([start])[start].result(60)
        self._consumers = {kind: self._consumer(kind) for kind in kinds}

    def append(self, count: int) -> None:
        """In a transaction, whose marker lies in each partition after the records."""
        self._producer.begin_transaction()
        for number in range(3 * count):
            self._producer.produce(self.topic, b"v", partition=number % 3)
        self._producer.commit_transaction()

    def commit(self, *offsets: int) -> None:
        """One for each partition, by each group."""
        told = [TopicPartition(self.topic, each, offset) for each, offset in enumerate(offsets)]
        for kind, consumer in self._consumers.items():
            if kind == "transactional":
                self._producer.begin_transaction()
                metadata = consumer.consumer_group_metadata()
                self._producer.send_offsets_to_transaction(told, metadata)
                self._producer.commit_transaction()
            else:
                consumer.commit(offsets=told, asynchronous=False)

    def lags(self, *lags: int) -> Lags:
        """What all are to tell, by these numbers of the partitions."""
        numbered = list(enumerate(lags))
        return {
            (f"{self.topic}-{kind}", number): lag
            for kind in self._consumers
            for number, lag in numbered
        }

    def close(self) -> None:
        for each in self._consumers.values():
            each.close()
        del self._producer

    def _consumer(self, kind: str) -> Consumer:
        told = {"group.id": f"{self.topic}-{kind}", "enable.auto.commit": False}
        if kind != "transactional":
            told["group.protocol"] = kind
        consumer = Consumer(self._settings | told)
        if kind != "transactional":
            consumer.subscribe([self.topic])
            wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), "an assignment")
        return consumer


def own_lags(watched: Watched, connection: Sequence[str]) -> Lags:
    """What `drumlin groups describe` tells."""
    command = [sys.executable, "-m", "drumlin", "groups", "describe", f"{watched.topic}-*"]
    said = subprocess.run([*command, "--json", *connection], capture_output=True, check=True)
    return {
        (each["group"], offset["partition"]): offset["lag"]
        for each in json.loads(said.stdout)
        for offset in each["offsets"]
    }


def check(monitor: Monitor, settings: Mapping[str, Any], connection: Sequence[str]) -> None:
    topic = "watched"
    # Reading what was committed it waits for a record at the end, where a transaction has its
    # marker: for ever, also on Apache Kafka.
    kinds = _KINDS[:2] if isinstance(monitor, KMinionOfOffsetsTopic) else _KINDS
    with contextlib.closing(Watched(topic, settings, kinds)) as watched, running(monitor):
        watched.commit(30, 101, 10)  # the last one has been deleted since
        _await_lags(monitor, watched, watched.lags(71, 0, 91), connection)
        if isinstance(monitor, Exporter):
            assert monitor.offsets(topic) == {0: (0, 101), 1: (0, 101), 2: (50, 101)}
            assert monitor.members(f"{topic}-classic") == 1
        watched.append(10)
        watched.commit(101, 112, 111)
        _await_lags(monitor, watched, watched.lags(11, 0, 1), connection)


def _await_lags(
    monitor: Monitor, watched: Watched, wanted: Lags, connection: Sequence[str]
) -> None:
    assert own_lags(watched, connection) == wanted
    seen: list[Lags] = [{}]

    def are_right() -> bool:
        seen.append(monitor.lags(watched.topic))
        return seen[-1] == wanted

    try:
        wait_until(are_right, "the lags")
    except AssertionError:
        raise AssertionError(f"{seen[-1]}, not {wanted}:\n{monitor.said()[-4000:]}") from None


@pytest.mark.parametrize(
    "monitor",
    [pytest.param(each, marks=pytest.mark.program(*told)) for each, told in MONITORS.items()],
)
def test_lag(monitor: type[Monitor], tmp_path: Path) -> None:
    with running_server(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as server:
        settings = {"bootstrap.servers": server.address}
        check(monitor(tmp_path, server.address), settings, ["--bootstrap", server.address])
