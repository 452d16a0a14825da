"""What a broker's metadata is after it was stopped, killed, or handed another's data."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from drumlin.metadata.embedded.database import FILE_NAME
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import render
from rig.data.raw import Closed
from rig.waiting import wait_until

TOPIC, BROKER = 2, 4


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DrumlinServer]:
    server = DrumlinServer(tmp_path, {"num.partitions": "2"})
    server.start()
    try:
        yield server
        server.check_output()
    finally:
        server.close()


def ask(server: DrumlinServer, api: str, version: int, **fields: Any) -> Any:
    with server.connect() as client:
        return render(client.ask(api, version, **fields))


def create(server: DrumlinServer, name: str, **configs: str) -> Any:
    topic = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()],
    }
    (result,) = ask(server, "create_topics", 7, topics=[topic], timeout=10_000)["topics"]
    assert result["error_code"] == "none", result
    return result["topic_id"]


def set_for_all(server: DrumlinServer, key: str, value: str) -> None:
    change = {"name": key, "config_operation": 0, "value": value}
    resource = {"resource_type": BROKER, "resource_name": "", "configs": [change]}
    answer = ask(server, "incremental_alter_configs", 1, resources=[resource], validate_only=False)
    assert [each["error_code"] for each in answer["responses"]] == ["none"], answer


def topic_value(server: DrumlinServer, topic: str, key: str) -> tuple[str, int]:
    resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": [key]}
    (result,) = ask(server, "describe_configs", 4, resources=[resource])["results"]
    (entry,) = result["configs"]
    return entry["value"], entry["config_source"]


def topics(server: DrumlinServer) -> dict[str, Any]:
    return {each["name"]: each for each in ask(server, "metadata", 12, topics=None)["topics"]}


def test_all_is_there_after_a_clean_stop(server: DrumlinServer) -> None:
    topic_id = create(server, "events", retention_ms="5000")
    set_for_all(server, "log.segment.bytes", "2000000")
    server.restart()
    (events,) = topics(server).values()
    assert (events["topic_id"], len(events["partitions"])) == (topic_id, 2)
    assert {each["leader_epoch"] for each in events["partitions"]} == {0}
    assert topic_value(server, "events", "retention.ms") == ("5000", 1)
    assert topic_value(server, "events", "segment.bytes") == ("2000000", 3)


def test_what_was_acknowledged_outlives_a_kill(server: DrumlinServer) -> None:
    for number in range(20):
        create(server, f"topic-{number}")
    server.kill()
    server.start()
    found = topics(server)
    assert set(found) == {f"topic-{number}" for number in range(20)}
    # Records may be missing that were seen: a new leader epoch tells consumers.
    epochs = {part["leader_epoch"] for each in found.values() for part in each["partitions"]}
    assert epochs == {1}


def test_connections_per_address_can_be_changed_while_running(server: DrumlinServer) -> None:
    set_for_all(server, "max.connections.per.ip", "1")
    with server.connect() as first:
        first.ask("api_versions", 0)

        def is_refused() -> bool:
            with contextlib.suppress(Closed), server.connect() as second:
                second.ask("api_versions", 0)
                return False
            return True

        wait_until(is_refused, "a second connection to be refused")


def test_the_logs_of_another_store_are_taken_over(server: DrumlinServer) -> None:
    """A data dir of Apache Kafka, whose metadata lies elsewhere."""
    topic_id = create(server, "events", cleanup_policy="compact")
    producer = Producer({"bootstrap.servers": server.address})
    for number in range(5):
        producer.produce("events", value=b"v", key=str(number).encode(), partition=1)
    assert producer.flush(20) == 0
    server.stop()
    for path in server.data.glob(FILE_NAME + "*"):
        path.unlink()
    server.start()
    (events,) = topics(server).values()
    assert (events["name"], events["topic_id"]) == ("events", topic_id)
    assert {each["leader_epoch"] for each in events["partitions"]} == {1}
    assert topic_value(server, "events", "retention.ms") == ("-1", 1)
    consumer = Consumer({"bootstrap.servers": server.address, "group.id": "g"})
    consumer.assign([TopicPartition("events", 1, 0)])
    assert len(consumer.consume(5, timeout=20)) == 5
    consumer.close()


def test_a_deleted_topic_stays_deleted(server: DrumlinServer) -> None:
    create(server, "events")
    ask(server, "delete_topics", 5, topic_names=["events"], timeout=10_000)
    server.kill()
    server.start()
    assert topics(server) == {}
