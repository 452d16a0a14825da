"""Three brokers: partitions move from some to others while clients go on."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from cluster.conftest import MakeBroker
from drumlin.config.machine_folders import folder_of
from rig.apache_kafka import kafka_classpath, run_tool
from rig.drumlin_server import DrumlinServer, server_command
from rig.jars import Unavailable
from rig.messages import render
from rig.ports import free_ports
from rig.raw import RawClient
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.clients, pytest.mark.slow]

Brokers = dict[int, DrumlinServer]
Replicas = tuple[int, ...]


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


def servers_of(brokers: Brokers) -> str:
    return ",".join(each.address for each in brokers.values())


def create(brokers: Brokers, name: str, *assignment: Sequence[int]) -> None:
    given = [
        {"partition_index": index, "broker_ids": list(each)}
        for index, each in enumerate(assignment)
    ]
    topic = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": given,
        "configs": [],
    }
    answer = ask(brokers[1], "create_topics", 4, topics=[topic], timeout=30_000)
    assert [each["error_code"] for each in answer["topics"]] == ["none"]


def ask(broker: DrumlinServer, api: str, version: int, **fields: Any) -> Any:
    with broker.connect() as client:
        return render(client.ask(api, version, **fields))


def reassign(
    broker: DrumlinServer, topic: str, targets: Mapping[int, Sequence[int] | None]
) -> dict[int, str]:
    """The code for each partition."""
    partitions = [
        {"partition_index": index, "replicas": None if target is None else list(target)}
        for index, target in targets.items()
    ]
    wanted = [{"name": topic, "partitions": partitions}]
    answer = ask(broker, "alter_partition_reassignments", 0, topics=wanted, timeout=30_000)
    (told,) = answer["responses"]
    return {each["partition_index"]: each["error_code"] for each in told["partitions"]}


def under_way(broker: DrumlinServer) -> dict[tuple[str, int], tuple[Replicas, Replicas, Replicas]]:
    answer = ask(broker, "list_partition_reassignments", 0, topics=None, timeout=30_000)
    return {
        (topic["name"], each["partition_index"]): (
            tuple(each["replicas"]),
            tuple(each["adding_replicas"]),
            tuple(each["removing_replicas"]),
        )
        for topic in answer["topics"]
        for each in topic["partitions"]
    }


def described(broker: DrumlinServer, topic: str) -> dict[int, tuple[int, Replicas, set[int]]]:
    """Leader, replicas and ISR of each partition, as one broker knows them."""
    answer = ask(broker, "metadata", 9, topics=[{"name": topic}], allow_auto_topic_creation=False)
    (known,) = answer["topics"]
    return {
        each["partition_index"]: (
            each["leader_id"],
            tuple(each["replica_nodes"]),
            set(each["isr_nodes"]),
        )
        for each in known["partitions"]
    }


def folders(broker: DrumlinServer, topic: str) -> set[str]:
    return {each.name for each in Path(broker.data).glob(f"{topic}-*")}


def await_replicas(brokers: Brokers, topic: str, wanted: Mapping[int, Replicas]) -> None:
    """All brokers know these replicas, in sync and led by one of them; others have no folders."""

    def is_so() -> bool:
        for node_id, broker in brokers.items():
            if any(name == topic for name, _ in under_way(broker)):
                return False
            for index, (leader, replicas, isr) in described(broker, topic).items():
                if replicas != wanted[index] or isr != set(replicas) or leader not in isr:
                    return False
            ours = {f"{topic}-{index}" for index, each in wanted.items() if node_id in each}
            if folders(broker, topic) != ours:
                return False
        return True

    wait_until(is_so, f"{topic} to be on {dict(wanted)}", 60)


class Traffic:
    """Writes numbers and reads them, from start to end."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "log_level": 0,
            }
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "readers",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
        self._is_ending = threading.Event()
        self.failures: list[str] = []
        self.written = 0
        self.seen: dict[int, list[int]] = {each: [] for each in range(partitions)}
        self._threads = [threading.Thread(target=each) for each in (self._write, self._read)]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def _write(self) -> None:
        def on_delivery(error: object, _: object) -> None:
            if error is not None:
                self.failures.append(str(error))

        while not self._is_ending.is_set():
            value = str(self.written).encode()
            partition = self.written % self._partitions
            self._producer.produce(self._topic, value, partition=partition, on_delivery=on_delivery)
            self.written += 1
            self._producer.poll(0.002)
        assert self._producer.flush(60) == 0

    def _read(self) -> None:
        while not self._is_ending.is_set() or self._threads[0].is_alive() or not self._is_all():
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    self.seen[message.partition()].append(int(message.value()))

    def _is_all(self) -> bool:
        return sum(map(len, self.seen.values())) >= self.written

    def end(self) -> None:
        """All that was written has been read, once and in order."""
        self._is_ending.set()
        for each in self._threads:
            each.join(90)
        assert not any(each.is_alive() for each in self._threads), (self.written, self.seen)
        self._consumer.close()
        assert self.failures == []
        for index, values in self.seen.items():
            assert values == list(range(index, self.written, self._partitions))


@contextmanager
def traffic(brokers: Brokers, topic: str, partitions: int) -> Iterator[Traffic]:
    found = Traffic(servers_of(brokers), topic, partitions)
    found.start()
    try:
        yield found
    finally:
        found.end()


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


@contextmanager
def frozen(broker: DrumlinServer) -> Iterator[None]:
    """It holds its connections and answers nothing."""
    assert broker.process is not None
    broker.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        broker.process.send_signal(signal.SIGCONT)


def write(brokers: Brokers, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers_of(brokers), "acks": "all", "log_level": 0})
    for each in range(count):
        producer.produce(topic, str(each), partition=0)
    assert producer.flush(60) == 0


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


def elect(
    broker: DrumlinServer, election_type: int, topic: str | None, *indexes: int
) -> dict[tuple[str, int], str]:
    wanted = None if topic is None else [{"topic": topic, "partitions": indexes}]
    answer = ask(
        broker,
        "elect_leaders",
        2,
        election_type=election_type,
        topic_partitions=wanted,
        timeout=30_000,
    )
    assert answer["error_code"] == "none"
    return {
        (each["topic"], result["partition_id"]): result["error_code"]
        for each in answer["replica_election_results"]
        for result in each["partition_result"]
    }


def test_elections(brokers: Brokers) -> None:
    create(brokers, "t", (2, 1), (2, 1), (2, 3), (1, 3))
    assert reassign(brokers[1], "t", {2: (2,)}) == {2: "none"}
    await_replicas(brokers, "t", {0: (2, 1), 1: (2, 1), 2: (2,), 3: (1, 3)})
    brokers[2].kill()
    wait_until(lambda: described(brokers[1], "t")[2][0] == -1, "broker 2 to be gone", 60)
    assert {each[0] for each in described(brokers[1], "t").values()} == {1, -1}
    assert elect(brokers[3], 0, "t", 0, 2, 3, 4) == {
        ("t", 0): "preferred_leader_not_available",
        ("t", 2): "preferred_leader_not_available",
        ("t", 3): "election_not_needed",
        ("t", 4): "unknown_topic_or_partition",
    }
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


def test_kafkas_own_commands(brokers: Brokers, tmp_path: Path) -> None:
    try:
        kafka_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))
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


def configure(brokers: Brokers, kind: int, name: str, **configs: str) -> None:
    changes = [
        {"name": key.replace("_", "."), "value": value, "config_operation": 0}
        for key, value in configs.items()
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": changes}
    (answer,) = ask(
        brokers[1], "incremental_alter_configs", 1, resources=[resource], validate_only=False
    )["responses"]
    assert answer["error_code"] == "none", answer


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttle_holds_back_those_that_catch_up(brokers: Brokers, side: str) -> None:
    create(brokers, "t", (1, 2), (2, 1))
    await_replicas(brokers, "t", {0: (1, 2), 1: (2, 1)})
    producer = Producer({"bootstrap.servers": servers_of(brokers), "acks": "all", "log_level": 0})
    for _ in range(600):
        producer.produce("t", os.urandom(10_000), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    configure(brokers, 4, "", **{f"{side}_replication_throttled_rate": "1000000"})
    listed = "0:1,0:2" if side == "leader" else "0:3"
    configure(brokers, 2, "t", **{f"{side}_replication_throttled_replicas": listed})
    assert set(reassign(brokers[1], "t", {0: (3,), 1: (3,)}).values()) == {"none"}
    began_s = time.monotonic()
    wait_until(lambda: described(brokers[1], "t")[1][1] == (3,), "the other to be there", 3)
    assert under_way(brokers[1]).keys() == {("t", 0)}
    await_replicas(brokers, "t", {0: (3,), 1: (3,)})
    assert time.monotonic() - began_s > 4  # 6 MB, of which 1 MB may come at once
    producer.produce("t", b"last", partition=0)
    assert producer.flush(30) == 0


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
