"""Two brokers as processes of their own, on one ZooKeeper: what needs both, by real clients."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from broker.cluster_clients import PARTITIONS, commit_and_abort, deliver, join_one_by_one, read
from broker.raw_transactions import RawProducer
from cluster.conftest import MakeBroker
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import render
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.clients, pytest.mark.slow]

_GROUP, _TRANSACTION = 0, 1


@pytest.fixture
def brokers(make_broker: MakeBroker) -> list[DrumlinServer]:
    """Brokers 1 and 2, with a topic on both."""
    servers = []
    for node_id in (1, 2):
        settings = {"node.id": str(node_id), "share.coordinator.state.topic.num.partitions": "4"}
        server = make_broker(settings, f"broker-{node_id}")
        server.start()
        servers.append(server)
    either = [[1 + index % 2] for index in range(PARTITIONS)]
    admin = AdminClient({"bootstrap.servers": servers[1].address})
    topic = NewTopic("t", PARTITIONS, replica_assignment=either)
    admin.create_topics([topic])["t"].result(20)
    wait_until(lambda: all(map(_is_led, servers)), "the topic to be known to both")
    return servers


def _is_led(server: DrumlinServer) -> bool:
    with server.connect() as client:
        answer = render(client.ask("metadata", 12, topics=[{"topic_id": None, "name": "t"}]))
    (topic,) = answer["topics"]
    codes = {each["error_code"] for each in topic["partitions"]}
    return len(answer["brokers"]) == 2 and codes == {"none"}


def key_of(server: DrumlinServer, key_type: int, node_id: int, name: str) -> str:
    """A key that this broker coordinates."""
    keys = [f"{name}-{each}" for each in range(20)]

    def found() -> dict[int, str] | None:
        with server.connect() as client:
            answer = client.ask("find_coordinator", 4, key_type=key_type, coordinator_keys=keys)
        told = render(answer)["coordinators"]
        if any(each["error_code"] != "none" for each in told):
            return None
        return {each["node_id"]: each["key"] for each in told}

    return wait_until(found, "all coordinators to be known")[node_id]


@pytest.mark.parametrize("coordinator", [pytest.param(1, marks=pytest.mark.deep), 2])
def test_transactions(brokers: list[DrumlinServer], coordinator: int) -> None:
    bootstrap = ",".join(each.address for each in brokers)
    ports = [each.port for each in brokers]
    name = key_of(brokers[0], _TRANSACTION, coordinator, "id")
    group = key_of(brokers[1], _GROUP, 3 - coordinator, "g")
    commit_and_abort(bootstrap, name, group)
    for version in (11, 12):
        join_one_by_one(ports, coordinator - 1, name, version)
    assert len(read(bootstrap, 2 * PARTITIONS + 8)) == 2 * PARTITIONS + 8


def test_a_share_group(brokers: list[DrumlinServer]) -> None:
    bootstrap = ",".join(each.address for each in brokers)
    group = key_of(brokers[0], _GROUP, 2, "g")
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(20)
    deliver(bootstrap, group, 5)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("version", "is_killed"),
    [
        (12, True),
        (11, False),
        pytest.param(12, False, marks=pytest.mark.deep),
        pytest.param(11, True, marks=pytest.mark.deep),
    ],
)
def test_a_transaction_ends_once_its_leaders_are_back(
    brokers: list[DrumlinServer], version: int, is_killed: bool
) -> None:
    """The coordinator goes on asking for the markers; readers wait until they are there."""
    first, second = brokers
    name = key_of(first, _TRANSACTION, 1, "id")
    with first.connect() as to_first, second.connect() as to_second:
        producer = RawProducer(to_first, name, version)
        producer.init()
        if not producer.is_v2:
            producer.add("t", 0, 1)
        for index, client in enumerate((to_first, to_second)):
            producer.client = client
            answer = producer.send("t", 0, partition=index)
            assert answer["error_code"] == "none", answer
        producer.client = to_first
        if is_killed:
            second.kill()
        else:
            second.stop()
        producer.end(commit=True)
        assert state_of(first, name) == "PrepareCommit"
        second.start()
        wait_until(lambda: state_of(first, name) == "CompleteCommit", "the end", 60)
    assert len(read(second.address, 2)) == 2


@pytest.mark.deep
def test_producers_try_again_until_their_coordinator_is_back(brokers: list[DrumlinServer]) -> None:
    """A leader cannot ask the coordinator whether a partition is part of the transaction."""
    first, second = brokers
    name = key_of(first, _TRANSACTION, 2, "id")
    with first.connect() as to_first:
        with second.connect() as to_second:
            producer = RawProducer(to_second, name)
            producer.init()
            producer.add("t", 0)
        second.kill()
        producer.client = to_first
        answer = producer.send("t", 0)
        assert answer["error_code"] == "not_enough_replicas", answer
        second.start()
        wait_until(lambda: producer.send("t", 0)["error_code"] == "none", "the batch", 60)
        with second.connect() as to_second:
            producer.client = to_second
            producer.end()
    assert len(read(first.address, 1)) == 1


def state_of(server: DrumlinServer, transactional_id: str) -> str:
    """Of a transaction that the broker coordinates."""
    with server.connect() as client:
        asked = client.ask("describe_transactions", 0, transactional_ids=[transactional_id])
    (told,) = render(asked)["transaction_states"]
    return str(told["transaction_state"])
