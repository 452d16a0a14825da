"""A broker of three that is short of something for a while: then it follows and leads again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from guarantees.clients import make_consumer
from guarantees.faults.run import FAULTS
from rig.brokers.drumlin_cluster import DrumlinCluster
from rig.fault_injection.injector import Injector
from rig.jvm.jars import Unavailable

pytestmark = [pytest.mark.zookeeper, pytest.mark.clients, pytest.mark.deep]

_LASTS_S = 10.0
_HEALS_S = 60.0
_PARTITIONS = 6


class Writer(threading.Thread):
    """Writes numbers, and knows which are acknowledged."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: set[int] = set()
        self.failures: list[str] = []
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        number = 0
        while not self._stopping.wait(0.005):
            self._producer.produce(
                "t", b"%d" % number, partition=number % _PARTITIONS, on_delivery=self._note
            )
            self._producer.poll(0)
            number += 1
        if self._producer.flush(_HEALS_S):
            self.failures.append("not everything is acknowledged")

    def _note(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        if error is None:
            self.acknowledged.add(int(value))
        else:
            self.failures.append(f"{int(value)}: {error}")

    def finish(self) -> None:
        self._stopping.set()
        self.join(2 * _HEALS_S)
        assert not self.failures, self.failures[:5]


def _read_all(address: str) -> Iterator[int]:
    consumer = make_consumer(address, "g", enable_partition_eof=True)
    try:
        consumer.assign([TopicPartition("t", each, 0) for each in range(_PARTITIONS)])
        ended = 0
        while ended < _PARTITIONS:
            message = consumer.poll(_HEALS_S)
            assert message is not None, "no end comes"
            error = message.error()
            if error is None:
                yield int(message.value() or b"")
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended += 1
    finally:
        consumer.close()


@pytest.mark.parametrize("fault", ["no descriptor", "no watch", "no room", "a disk that fails"])
def test_a_broker_is_in_sync_again(tmp_path: Path, fault: str) -> None:
    cluster = DrumlinCluster(tmp_path)
    try:
        injectors = {}
        for node_id, server in cluster.brokers.items():
            injectors[node_id] = Injector(tmp_path / f"faults-{node_id}")
            server.environment = injectors[node_id].environment()
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.address})
        admin.create_topics([NewTopic("t", _PARTITIONS, 3)])["t"].result(30)
        writer = Writer(cluster.address)
        writer.start()
        for node_id, injector in injectors.items():
            with injector.injected(FAULTS[fault]):
                time.sleep(_LASTS_S)
            assert injector.hits
            cluster.brokers[node_id].fail_if_ended()
            cluster.await_whole(_HEALS_S)
        writer.finish()
        read = list(_read_all(cluster.address))
        assert writer.acknowledged
        assert sorted(read) == sorted(set(read)), "nothing comes twice"
        assert writer.acknowledged <= set(read)
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        cluster.close()
