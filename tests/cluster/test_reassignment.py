"""Three brokers: partitions move from some to others while clients go on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from cluster.conftest import MakeBroker
from cluster.moves import (
    Brokers,
    await_replicas,
    configure,
    create,
    described,
    elect,
    frozen,
    reassign,
    servers_of,
    traffic,
    under_way,
    write,
)
from drumlin.config.machine_folders import folder_of
from rig.brokers.drumlin_server import DrumlinServer, server_command
from rig.data.raw import RawClient
from rig.ports import free_ports
from rig.servers.apache_kafka import kafka_classpath, run_tool
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.clients, pytest.mark.slow]


@pytest.fixture
def brokers(make_broker: MakeBroker) -> Brokers:
    """Three of one cluster, by their ids."""
    made = {}
    for node_id in (1, 2, 3):
        settings = {
            "node.id": str(node_id),
            "offsets.topic.replication.factor": "3",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": "3",
            "log.segment.delete.delay.ms": "0",
        }
        made[node_id] = make_broker(settings, str(node_id))
    for each in made.values():
        each.start()
    return made


@pytest.mark.deep
def test_partitions_move_under_the_feet_of_clients(brokers: Brokers) -> None:
    create(brokers, "t", (1, 2), (2, 1), (1, 2))
    with traffic(brokers, "t", 3) as clients:
        for targets in (
            {0: (3, 1), 1: (2, 3), 2: (3, 2)},
            {0: (2, 3), 1: (1,), 2: (1, 2, 3)},
            {0: (1, 2), 1: (3, 1), 2: (3,)},
        ):
            before = clients.written
            codes = reassign(brokers[2], "t", targets)
            assert set(codes.values()) == {"none"}
            await_replicas(brokers, "t", targets)
            wait_until(lambda at=before: clients.written > at + 100, "records to go on", 30)


class _OnOneMachine(DrumlinServer):
    """Three brokers, started by one command."""

    count = 3

    def start(self, timeout_s: float = 60.0) -> None:
        command = server_command(self.data, self.port, self.settings)
        self.launch([*command, "--brokers", str(self.count)])
        self.await_ready_line(rf":{self.port}", timeout_s=timeout_s)


class _OneOfThem(NamedTuple):
    """What there is to ask of one of its brokers."""

    port: int
    data: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def connect(self) -> RawClient:
        return RawClient(self.port)


@pytest.fixture
def on_one_machine(tmp_path: Path) -> Iterator[dict[int, Any]]:
    server = _OnOneMachine(tmp_path, {"log.segment.delete.delay.ms": "0"})
    ports = free_ports(server.count)
    while ports[-1] - ports[0] >= server.count:
        ports = free_ports(server.count)
    server.port = ports[0]
    server.start()
    try:
        yield {
            1 + index: _OneOfThem(
                server.port + index, Path(folder_of(str(server.data), index, 1 + index))
            )
            for index in range(server.count)
        }
        server.stop()
        server.check_output()
    finally:
        server.close()


@pytest.mark.deep
def test_partitions_move_between_brokers_of_one_machine(on_one_machine: dict[int, Any]) -> None:
    brokers = on_one_machine
    create(brokers, "t", (1, 2), (2, 1))
    with traffic(brokers, "t", 2) as clients:
        for targets in ({0: (3, 1), 1: (3,)}, {0: (2,), 1: (1, 2, 3)}):
            before = clients.written
            assert set(reassign(brokers[2], "t", targets).values()) == {"none"}
            await_replicas(brokers, "t", targets)
            wait_until(lambda at=before: clients.written > at + 100, "records to go on", 30)
    assert elect(brokers[3], 0, "t", 0, 1) == {
        ("t", 0): "election_not_needed",
        ("t", 1): "none",
    }
    assert described(brokers[3], "t")[1][0] == 1
    assert reassign(brokers[1], "t", {1: None}) == {1: "no_reassignment_in_progress"}


@pytest.mark.deep
def test_one_that_waits_is_seen_and_can_be_taken_back(brokers: Brokers) -> None:
    create(brokers, "t", (1, 2))
    await_replicas(brokers, "t", {0: (1, 2)})
    write(brokers, "t", 100)
    with frozen(brokers[3]):
        assert reassign(brokers[2], "t", {0: (3, 2)}) == {0: "none"}
        waiting = {("t", 0): ((3, 2, 1), (3,), (1,))}
        for each in (brokers[1], brokers[2]):
            wait_until(lambda at=each: under_way(at) == waiting, "the news")
            leader, replicas, isr = described(each, "t")[0]
            assert (leader, replicas, isr) == (1, (3, 2, 1), {1, 2})
        assert reassign(brokers[1], "t", {0: (2, 3)}) == {0: "none"}
        assert under_way(brokers[1]) == {("t", 0): ((2, 3, 1), (3,), (1,))}
        assert reassign(brokers[1], "t", {0: None}) == {0: "none"}
        assert under_way(brokers[1]) == {}
        assert reassign(brokers[1], "t", {0: None}) == {0: "no_reassignment_in_progress"}
    await_replicas(brokers, "t", {0: (2, 1)})


@pytest.mark.deep
def test_it_outlives_brokers_and_controllers(brokers: Brokers) -> None:
    create(brokers, "t", (1, 2), (2, 1))
    await_replicas(brokers, "t", {0: (1, 2), 1: (2, 1)})
    write(brokers, "t", 100)
    with frozen(brokers[3]):
        assert reassign(brokers[2], "t", {0: (3, 2), 1: (3,)}) == {0: "none", 1: "none"}
        brokers[1].kill()  # which is the controller
    wait_until(
        lambda: described(brokers[2], "t")[1] == (3, (3,), {3}), "the second to have moved", 60
    )
    assert under_way(brokers[2]).keys() <= {("t", 0)}
    brokers[1].start()
    await_replicas(brokers, "t", {0: (3, 2), 1: (3,)})


def test_elections(brokers: Brokers) -> None:
    create(brokers, "t", (2, 1), (2, 1), (2, 3), (1, 3))
    assert reassign(brokers[1], "t", {2: (2,)}) == {2: "none"}
    await_replicas(brokers, "t", {0: (2, 1), 1: (2, 1), 2: (2,), 3: (1, 3)})
    brokers[2].kill()
    wait_until(lambda: described(brokers[1], "t")[2][0] == -1, "broker 2 to be gone", 60)
    assert elect(brokers[3], 0, "t", 0, 2, 3, 4) == {
        ("t", 0): "preferred_leader_not_available",
        ("t", 2): "preferred_leader_not_available",
        ("t", 3): "election_not_needed",
        ("t", 4): "unknown_topic_or_partition",
    }
    wait_until(lambda: described(brokers[1], "t")[0][0] == 1, "broker 1 to lead")
    assert elect(brokers[1], 1, "t", 0, 2) == {
        ("t", 0): "election_not_needed",
        ("t", 2): "eligible_leaders_not_available",
    }
    brokers[2].start()
    await_replicas(brokers, "t", {0: (2, 1), 1: (2, 1), 2: (2,), 3: (1, 3)})
    assert elect(brokers[1], 0, "t", 0) == {("t", 0): "none"}
    assert elect(brokers[1], 0, None) == {("t", 1): "none"}
    wait_until(
        lambda: [each[0] for each in described(brokers[3], "t").values()] == [2, 2, 2, 1],
        "the preferred leaders",
    )


@pytest.mark.deep
def test_kafkas_own_commands(brokers: Brokers, tmp_path: Path) -> None:
    with skipped_where_unavailable():
        kafka_classpath()
    create(brokers, "t", (1, 2), (2, 1))
    await_replicas(brokers, "t", {0: (1, 2), 1: (2, 1)})
    write(brokers, "t", 1000)
    plan = tmp_path / "plan.json"
    moves = [
        {"topic": "t", "partition": index, "replicas": [3, 2], "log_dirs": ["any", "any"]}
        for index in (0, 1)
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))

    def tool(name: str, *arguments: str) -> str:
        server = ("--bootstrap-server", brokers[1].address)
        return run_tool(f"org.apache.kafka.tools.{name}", *server, *arguments)

    reassignment = ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(plan))
    said = tool(*reassignment, "--execute", "--throttle", "1000000")
    assert "Successfully started partition reassignments for t-0,t-1" in said
    await_replicas(brokers, "t", {0: (3, 2), 1: (3, 2)})
    said = tool(*reassignment, "--verify")
    assert "Reassignment of partition t-1 is completed." in said
    assert "Clearing topic-level throttles on topic t" in said
    assert "No partition reassignments found." in tool(
        "reassign.ReassignPartitionsCommand", "--list"
    )
    election = ("--election-type", "preferred", "--all-topic-partitions")
    assert "Successfully completed leader election (PREFERRED) for partitions t-1" in tool(
        "LeaderElectionCommand", *election
    )
    assert described(brokers[1], "t")[1][0] == 3


@pytest.mark.deep
@pytest.mark.parametrize("side", ["leader", pytest.param("follower", marks=pytest.mark.deep)])
def test_a_throttle_holds_back_those_that_catch_up(brokers: Brokers, side: str) -> None:
    create(brokers, "t", (1, 2), (2, 1))
    await_replicas(brokers, "t", {0: (1, 2), 1: (2, 1)})
    producer = Producer({"bootstrap.servers": servers_of(brokers), "acks": "all", "log_level": 0})
    for _ in range(600):
        producer.produce("t", os.urandom(10_000), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    rate = f"{side}_replication_throttled_rate"
    configure(brokers, 4, "", **{rate: "50000"})
    listed = "0:1,0:2" if side == "leader" else "0:3"
    configure(brokers, 2, "t", **{f"{side}_replication_throttled_replicas": listed})
    assert set(reassign(brokers[1], "t", {0: (3,), 1: (3,)}).values()) == {"none"}
    wait_until(lambda: described(brokers[1], "t")[1][1] == (3,), "the other to be there")
    assert under_way(brokers[1]).keys() == {("t", 0)}  # 6 MB take two minutes
    configure(brokers, 4, "", **{rate: "100000000"})
    await_replicas(brokers, "t", {0: (3,), 1: (3,)})
    producer.produce("t", b"last", partition=0)
    assert producer.flush(30) == 0


@pytest.mark.deep
def test_groups_and_transactions_go_on_while_their_topics_move(brokers: Brokers) -> None:
    create(brokers, "t", (1, 2, 3))
    servers = servers_of(brokers)
    settings = {"bootstrap.servers": servers, "log_level": 0}
    producer = Producer({**settings, "transactional.id": "x", "transaction.timeout.ms": 60_000})
    consumer = Consumer(
        {
            **settings,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["t"])
    producer.init_transactions(30)
    found: list[int] = []

    def go_on(first: int, end: int) -> None:
        for number in range(first, end):
            producer.begin_transaction()
            producer.produce("t", str(number))
            if number % 5 == 0:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
        deadline = time.monotonic() + 60
        wanted = [each for each in range(end) if each % 5]
        while found != wanted:
            assert time.monotonic() < deadline, (found, wanted)
            for message in consumer.consume(100, 0.5):
                assert message.error() is None, message.error()
                found.append(int(message.value()))
                consumer.commit(message, asynchronous=False)

    go_on(0, 20)
    for round_number, target in enumerate(((3,), (1, 2), (2, 3, 1)), 1):
        for topic in ("__consumer_offsets", "__transaction_state"):
            targets = dict.fromkeys(described(brokers[1], topic), target)
            assert set(reassign(brokers[1], topic, targets).values()) == {"none"}
            await_replicas(brokers, topic, targets)
        go_on(20 * round_number, 20 * round_number + 20)
    consumer.close()
    again = Consumer({**settings, "group.id": "g"})
    (committed,) = again.committed([TopicPartition("t", 0)], 30)
    again.close()
    assert committed.offset > max(found)
