"""Records that are numbers in the topic `t`, written and read by librdkafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from rig.brokers.drumlin_server import DrumlinServer
from rig.waiting import wait_until

Servers = Mapping[int, DrumlinServer]


def bootstrap(servers: Servers) -> str:
    return ",".join(each.address for each in servers.values())


def produce(servers: Servers, numbers: range, partitions: int = 1, **more: Any) -> None:
    """Those records, acknowledged by all in-sync replicas."""
    failed: list[object] = []
    settings = {"acks": "all", "linger.ms": 5, "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap(servers), **settings, **more})
    for number in numbers:
        producer.produce(
            "t",
            str(number).encode(),
            partition=number % partitions,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert not failed


def consume(servers: Servers, count: int, partitions: int = 1, **more: Any) -> list[int]:
    """So many numbers at least, each partition from its beginning."""
    settings = {"group.id": "none", "log_level": 0, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap(servers), **settings, **more})
    consumer.assign([TopicPartition("t", each, 0) for each in range(partitions)])
    found: list[int] = []

    def has_all() -> bool:
        found.extend(int(each.value()) for each in consumer.consume(1000, 1.0) if not each.error())
        return len(found) >= count

    wait_until(has_all, f"{count} records", 60)
    consumer.close()
    return found
