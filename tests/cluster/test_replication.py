"""Three brokers and topics of three replicas: what is promised when brokers come and go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.conftest import MakeBroker
from cluster.numbers import bootstrap, consume, produce
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.clients, pytest.mark.slow]

_PARTITIONS = 3
_TOPIC = {"topic_id": None, "name": "t"}
_SETTINGS = {
    "replica.lag.time.max.ms": "2000",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


@pytest.fixture
def brokers(make_broker: MakeBroker) -> dict[int, DrumlinServer]:
    """Brokers 1, 2 and 3, each in a rack of its own, with a topic."""
    servers = {}
    for node_id in (1, 2, 3):
        settings = {"node.id": str(node_id), "broker.rack": f"rack-{node_id}", **_SETTINGS}
        servers[node_id] = make_broker(settings, f"broker-{node_id}")
        servers[node_id].start()
    config = {"min.insync.replicas": "2"}
    replicas = [[1 + (first + each) % 3 for each in range(3)] for first in range(_PARTITIONS)]
    topic = NewTopic("t", _PARTITIONS, replica_assignment=replicas, config=config)
    admin = AdminClient({"bootstrap.servers": bootstrap(servers)})
    admin.create_topics([topic])["t"].result(20)
    for server in servers.values():
        wait_until(lambda server=server: in_sync(server) == [3] * _PARTITIONS, "all to be known")  # type: ignore[misc]
    return servers


def partitions(server: DrumlinServer) -> list[dict[str, Any]]:
    """As one broker knows them, by index."""
    with server.connect() as client:
        (topic,) = render(client.ask("metadata", 12, topics=[_TOPIC]))["topics"]
    return sorted(topic["partitions"], key=lambda each: int(each["partition_index"]))


def in_sync(server: DrumlinServer) -> list[int]:
    return [len(each["isr_nodes"]) for each in partitions(server)]


def leaders(server: DrumlinServer) -> list[int]:
    return [each["leader_id"] for each in partitions(server)]


def records_of(server: DrumlinServer, partition: int) -> bytes:
    """The partition as it is on that broker's disk."""
    folder: Path = server.data / f"t-{partition}"
    return b"".join(each.read_bytes() for each in sorted(folder.glob("*.log")))


def assert_replicas_are_equal(servers: dict[int, DrumlinServer]) -> None:
    for partition in range(_PARTITIONS):

        def are_equal(partition: int = partition) -> bool:
            return len({records_of(each, partition) for each in servers.values()}) == 1

        wait_until(are_equal, f"replicas of t-{partition} to be equal")


def test_a_broker_is_killed_and_comes_back(brokers: dict[int, DrumlinServer]) -> None:
    produce(brokers, range(3000), _PARTITIONS)
    brokers[1].kill()
    produce(brokers, range(3000, 6000), _PARTITIONS)
    survivor = brokers[2]
    assert sorted(set(leaders(survivor)) | {2, 3}) == [2, 3]
    brokers[1].start()
    wait_until(lambda: in_sync(survivor) == [3] * _PARTITIONS, "broker 1 to be in sync")
    assert sorted(consume(brokers, 6000, _PARTITIONS)) == list(range(6000))
    assert_replicas_are_equal(brokers)


@pytest.mark.deep
def test_a_broker_that_stops_hands_over_first(brokers: dict[int, DrumlinServer]) -> None:
    produce(brokers, range(300), _PARTITIONS)
    assert brokers[1].terminate() == 0
    assert 1 not in leaders(brokers[2])  # at once: no session has to end before
    assert in_sync(brokers[2]) == [2] * _PARTITIONS
    produce(brokers, range(300, 600), _PARTITIONS)
    brokers[1].start()
    wait_until(lambda: in_sync(brokers[2]) == [3] * _PARTITIONS, "broker 1 to be in sync")
    assert sorted(consume(brokers, 600, _PARTITIONS)) == list(range(600))
    assert_replicas_are_equal(brokers)


@pytest.mark.deep
def test_fewer_in_sync_than_asked_for(brokers: dict[int, DrumlinServer]) -> None:
    produce(brokers, range(30), _PARTITIONS)
    for node_id in (2, 3):
        brokers[node_id].kill()
    last = brokers[1]
    wait_until(lambda: in_sync(last) == [1] * _PARTITIONS, "the others to be out of sync")
    wait_until(lambda: leaders(last) == [1] * _PARTITIONS, "it to lead")
    with last.connect() as client:
        assert _produce_raw(client, -1)["error_code"] == "not_enough_replicas"
        assert _produce_raw(client, 1)["error_code"] == "none"
        # It is in the log, but nobody reads it until enough have it.
        assert _fetch_raw(client)["high_watermark"] == 10
    for node_id in (2, 3):
        brokers[node_id].start()
    wait_until(lambda: in_sync(last) == [3] * _PARTITIONS, "all to be in sync")
    with last.connect() as client:
        wait_until(lambda: _fetch_raw(client)["high_watermark"] == 11, "it to be committed")
    produce(brokers, range(30, 60), _PARTITIONS)
    assert_replicas_are_equal(brokers)


def _produce_raw(client: RawClient, acks: int, partition: int = 0, version: int = 10) -> Any:
    data = [{"index": partition, "records": batch(b"1")}]
    topics = [{"name": "t", "partition_data": data}]
    answer = client.ask("produce", version, acks=acks, timeout=5000, topic_data=topics)
    return render(answer)["responses"][0]["partition_responses"][0]


def _fetch_raw(
    client: RawClient, partition: int = 0, offset: int = 0, version: int = 12, rack: str = ""
) -> Any:
    wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    answer = client.ask(
        "fetch",
        version,
        replica_id=-1,
        max_bytes=1 << 20,
        min_bytes=0,
        session_epoch=-1,
        rack_id=rack,
        topics=[{"topic": "t", "partitions": [{"current_leader_epoch": -1, **wanted}]}],
    )
    return render(answer)["responses"][0]["partitions"][0]


def test_who_asks_in_the_wrong_place_is_told_the_right_one(
    brokers: dict[int, DrumlinServer],
) -> None:
    leader = leaders(brokers[1])[0]
    other = brokers[leader % 3 + 1]
    with other.connect() as client:
        answer = client.ask(
            "produce",
            10,
            acks=1,
            timeout=5000,
            topic_data=[{"name": "t", "partition_data": [{"index": 0, "records": batch(b"1")}]}],
        )
    told = render(answer)
    (refused,) = told["responses"][0]["partition_responses"]
    assert refused["error_code"] == "not_leader_or_follower"
    assert refused["current_leader"]["leader_id"] == leader
    assert [each["node_id"] for each in told["node_endpoints"]] == [leader]
    assert told["node_endpoints"][0]["port"] == brokers[leader].port


def test_consumers_read_from_the_replica_in_their_rack(brokers: dict[int, DrumlinServer]) -> None:
    produce(brokers, range(300), _PARTITIONS)
    leader = leaders(brokers[1])[0]
    near = leader % 3 + 1
    with brokers[leader].connect() as client:

        def is_sent_there() -> bool:
            answer = _fetch_raw(client, rack=f"rack-{near}")
            return bool(answer["preferred_read_replica"] == near and not answer["records"])

        wait_until(is_sent_there, "the leader to know the follower")
        assert _fetch_raw(client, rack=f"rack-{leader}")["preferred_read_replica"] == -1
    with brokers[near].connect() as client:
        wait_until(lambda: _fetch_raw(client)["high_watermark"] == 100, "what is committed")
        assert _fetch_raw(client)["records"]
    assert sorted(consume(brokers, 300, _PARTITIONS, **{"client.rack": f"rack-{near}"})) == list(
        range(300)
    )


@pytest.mark.deep
def test_records_are_deleted_on_all_replicas(brokers: dict[int, DrumlinServer]) -> None:
    produce(brokers, range(300), _PARTITIONS)
    admin = AdminClient({"bootstrap.servers": bootstrap(brokers)})
    answers = admin.delete_records([TopicPartition("t", each, 60) for each in range(_PARTITIONS)])
    assert {each.result(20).low_watermark for each in answers.values()} == {60}
    brokers[leaders(brokers[1])[0]].kill()
    survivors = {key: each for key, each in brokers.items() if each.process is not None}
    wait_until(lambda: len(set(leaders(next(iter(survivors.values())))) - {-1}) == 2, "leaders")
    found = consume(survivors, 120, _PARTITIONS)
    assert sorted(found) == list(range(180, 300))


@pytest.mark.deep
def test_a_broker_without_a_replica_follows_nothing(brokers: dict[int, DrumlinServer]) -> None:
    """One that has no replica is refused, whatever it says of itself."""
    leader = leaders(brokers[1])[0]
    with brokers[leader].connect() as client:
        wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        answer = client.ask(
            "fetch",
            12,
            replica_id=9,
            max_bytes=1000,
            session_epoch=-1,
            topics=[{"topic": "t", "partitions": [{"current_leader_epoch": -1, **wanted}]}],
        )
        (refused,) = render(answer)["responses"][0]["partitions"]
        assert refused["error_code"] == "not_leader_or_follower"
