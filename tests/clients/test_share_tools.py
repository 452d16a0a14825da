"""Java's share consumer and the tool of share groups, both of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clients.test_kafka_tools import tool
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch
from rig.servers.apache_kafka import run_tool

pytestmark = [
    pytest.mark.clients,
    pytest.mark.kafka,
    pytest.mark.usefixtures("kafka_classes"),
]

_VALUES = [f"value-{number}" for number in range(40)]


def _prepare(server: DrumlinServer, topic: str, group: str) -> None:
    """A topic with records in both partitions, and a group that begins at their start."""
    with server.connect() as client:
        creation = {"name": topic, "num_partitions": 2, "replication_factor": 1}
        client.ask("create_topics", 7, topics=[creation], timeout=10_000)
        for index in range(2):
            records = batch(*(value.encode() for value in _VALUES[index::2]))
            partition = {"index": index, "records": records}
            data = [{"name": topic, "partition_data": [partition]}]
            client.ask("produce", 9, acks=-1, timeout=10_000, topic_data=data)
        setting = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
        resource = {"resource_type": 32, "resource_name": group, "configs": [setting]}
        client.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)


@pytest.mark.deep
def test_consume_reset_and_delete(server: DrumlinServer, unique: Callable[[str], str]) -> None:
    """A share consumer reads all; the group is described, reset, reads again, and is deleted."""
    topic, group, bootstrap = unique("topic"), unique("group"), server.address
    _prepare(server, topic, group)

    def consume() -> set[str]:
        said = tool(
            "consumer.ConsoleShareConsumer",
            bootstrap,
            *("--topic", topic, "--group", group),
            *("--max-messages", str(len(_VALUES)), "--timeout-ms", "30000"),
        )
        return set(said.split()) & set(_VALUES)

    def groups(*arguments: str) -> str:
        return tool("consumer.group.ShareGroupCommand", bootstrap, *arguments)

    assert consume() == set(_VALUES)
    described = groups("--describe", "--group", group, "--offsets").split()
    rows = [described[at : at + 5] for at, word in enumerate(described) if word == group]
    assert [row[1:3] for row in rows] == [[topic, "0"], [topic, "1"]]
    assert [row[4] for row in rows] == ["0", "0"]  # the lag
    logs = ",".join(map(str, server.data.glob("__share_group_state-*/*.log")))
    dump = ("--files", logs, "--share-group-state-decoder")
    dumped = run_tool("org.apache.kafka.tools.DumpLogSegments", *dump)
    assert "isvalid: false" not in dumped
    assert f'"groupId":"{group}"' in dumped
    assert '"deliveryCompleteCount":20' in dumped or '"startOffset":20' in dumped
    reset = groups(
        "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"
    )
    assert reset.count(topic) == 2
    assert consume() == set(_VALUES)
    assert "Successful" in groups("--delete-offsets", "--group", group, "--topic", topic)
    assert "successful" in groups("--delete", "--group", group)
