"""Compacted topics as a user has them: written and read with confluent-kafka, watched over HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from drumlin.broker.http.admin_socket import connect_to_admin_socket
from rig.waiting import wait_until

#: For a busy machine.
CLEANED_S = 180.0
#: Small segments, and dirty at once.
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
}


def create(address: str, topic: str, partitions: int = 1, **configs: str) -> None:
    """A topic that is compacted, unless told otherwise; keys with underscores for dots."""
    given = COMPACTED | {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions, 1, config=given)])[topic].result(20)


def alter(address: str, topic: str | None, configs: Mapping[str, str]) -> None:
    """Set keys of a topic, or of the broker."""
    kind = ResourceType.BROKER if topic is None else ResourceType.TOPIC
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in configs.items()
    ]
    resource = ConfigResource(kind, topic or "1", incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": address})
    admin.incremental_alter_configs([resource])[resource].result(20)


def produce(
    address: str, topic: str, rounds: int = 20, keys: int = 100, first_round: int = 0
) -> dict[bytes, bytes]:
    """Every key once a round; the values that are to survive."""
    producer = Producer({"bootstrap.servers": address, "batch.size": 3000, "linger.ms": 2})
    last: dict[bytes, bytes] = {}
    for number in range(first_round, first_round + rounds):
        for key in range(keys):
            name, value = b"key-%d" % key, b"%d-" % number + b"x" * 40
            producer.produce(topic, value, name, partition=0)
            last[name] = value
        producer.poll(0)
    assert producer.flush(30) == 0
    return last


def read(address: str, topic: str) -> list[tuple[int, bytes, bytes]]:
    """Offset, key and value of all that a consumer gets from the beginning."""
    settings = {
        "bootstrap.servers": address,
        "group.id": "reader",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
    }
    found = []
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(20)) is not None:
            if message.error():
                break
            found.append((message.offset(), message.key(), message.value()))
        else:
            raise AssertionError(f"{topic} came to no end")
    return found


def fetch(port: int, path: str) -> bytes:
    """What a broker's metrics listener answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with closing(connection):
        connection.request("GET", path)
        response = connection.getresponse()
        assert response.status == 200
        return response.read()


def ask_operator(data: Path, request: str, body: str = "") -> tuple[int, Any]:
    """Status and JSON of an answer through the socket in a data directory."""
    with connect_to_admin_socket(data, 30) as sock:
        head = f"{request} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        sock.sendall((head + body).encode())
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
    head_bytes, _, answer_body = answer.partition(b"\r\n\r\n")
    return int(head_bytes.split(b" ")[1]), json.loads(answer_body)


def status(data: Path, topic: str) -> dict[str, Any] | None:
    """How the cleaning of a topic's first partition stands; None where it is not compacted."""
    code, answer = ask_operator(data, f"GET /compaction?topic={topic}&partition=0")
    assert code == 200
    rows = answer["partitions"]
    return rows[0] if rows else None


def await_clean(data: Path, topic: str) -> dict[str, Any]:
    """The status of a topic as soon as it was cleaned and nothing of it is dirty."""

    def is_clean() -> dict[str, Any] | None:
        row = status(data, topic)
        return row if row and row["last_cleaning"] and not row["head_bytes"] else None

    return wait_until(is_clean, f"{topic} to be clean", CLEANED_S)
