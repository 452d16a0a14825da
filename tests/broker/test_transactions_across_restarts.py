"""Open transactions when a broker is killed: what is undecided stays so, until it is decided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.raw_transactions import RawProducer
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.waiting import wait_until

READ_COMMITTED = 1
GROUP = "g"
UNSTABLE = "unstable_offset_commit"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DrumlinServer]:
    settings = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    server = DrumlinServer(tmp_path, settings)
    server.start()
    try:
        yield server
        server.check_output()
    finally:
        server.close()


class Client:
    """What a user can see of topic `t` and the group."""

    def __init__(self, server: DrumlinServer) -> None:
        self.connection: RawClient = server.connect()

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        return render(self.connection.ask(api, version, **fields))

    def last_stable_offset(self, partition: int) -> int:
        parts = [{"partition_index": partition, "timestamp": -1, "current_leader_epoch": -1}]
        topics = [{"name": "t", "partitions": parts}]
        answer = self.ask("list_offsets", 7, replica_id=-1, isolation_level=1, topics=topics)
        return int(answer["topics"][0]["partitions"][0]["offset"])

    def aborted(self, partition: int) -> list[int]:
        """First offsets of the aborted transactions that a reader of everything is told."""
        wanted = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        answer = self.ask(
            "fetch",
            11,
            replica_id=-1,
            isolation_level=READ_COMMITTED,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[{"topic": "t", "partitions": [wanted]}],
        )
        (of_partition,) = answer["responses"][0]["partitions"]
        return [each["first_offset"] for each in of_partition["aborted_transactions"]]

    def committed(self) -> dict[int, int | str]:
        """The group's offsets by partition, or an error."""
        topics = [{"name": "t", "partition_indexes": [0, 1]}]
        groups = [{"group_id": GROUP, "topics": topics}]
        found: dict[int, int | str] = {}

        def is_loaded() -> bool:
            answer = self.ask("offset_fetch", 8, groups=groups, require_stable=True)
            (group,) = answer["groups"]
            if group["error_code"] != "none":
                return False
            for each in group["topics"][0]["partitions"]:
                code = each["error_code"]
                found[each["partition_index"]] = (
                    each["committed_offset"] if code == "none" else code
                )
            return True

        wait_until(is_loaded, "the group")
        return found


def commit_offset(producer: RawProducer, partition: int, offset: int) -> str:
    parts = [
        {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
        }
    ]
    answer = producer.ask(
        "txn_offset_commit",
        5,
        transactional_id=producer.transactional_id,
        group_id=GROUP,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        generation_id=-1,
        topics=[{"name": "t", "partitions": parts}],
    )
    return str(answer["topics"][0]["partitions"][0]["error_code"])


def revive(producer: RawProducer, server: DrumlinServer) -> None:
    """Go on after a restart, as the producer that one was."""
    producer.client = server.connect()

    def is_ready() -> bool:
        keys = [producer.transactional_id]
        producer.ask("find_coordinator", 4, key_type=1, coordinator_keys=keys)
        states = producer.ask("describe_transactions", 0, transactional_ids=keys)
        return bool(states["transaction_states"][0]["error_code"] == "none")

    wait_until(is_ready, "the transaction coordinator")


def test_transactions_that_are_open_when_the_broker_is_killed(server: DrumlinServer) -> None:
    client = Client(server)
    topic = {"name": "t", "num_partitions": 2, "replication_factor": 1}
    client.ask("create_topics", 7, topics=[topic], timeout=10_000)
    client.ask("find_coordinator", 4, key_type=0, coordinator_keys=[GROUP])
    aborting, committing = (RawProducer(server.connect(), name, 12) for name in ("a", "c"))
    for number, producer in enumerate((aborting, committing)):
        producer.init()
        assert producer.send("t", 0, 1, partition=number)["error_code"] == "none"
        wait_until(
            lambda producer=producer, number=number: commit_offset(producer, number, 7) == "none",
            "the group coordinator",
        )
    assert client.committed() == {0: UNSTABLE, 1: UNSTABLE}

    server.kill()
    server.start()
    client = Client(server)
    assert [client.last_stable_offset(each) for each in (0, 1)] == [0, 0]
    assert client.committed() == {0: UNSTABLE, 1: UNSTABLE}
    for number, producer in enumerate((aborting, committing)):
        revive(producer, server)
        assert producer.send("t", 2, partition=number)["error_code"] == "none"
        producer.end(commit=producer is committing)
    wait_until(lambda: client.committed() == {0: -1, 1: 7}, "both markers")
    assert client.aborted(0) == [0]
    assert client.aborted(1) == []

    server.kill()
    server.start()
    client = Client(server)
    assert client.committed() == {0: -1, 1: 7}
    assert [client.last_stable_offset(each) for each in (0, 1)] == [4, 4]
    assert client.aborted(0) == [0]
    for producer in (aborting, committing):
        revive(producer, server)
        assert producer.send("t", 0)["error_code"] == "none"
