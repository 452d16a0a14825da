"""Leadership moves between two requests of one connection, there and back: answers stay right.

Producers keep several requests under way, readers a fetch session with each broker, by names and by
ids. What was acknowledged is there, once and in its place; no reader skips anything, and none sees
what is not in the log in the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.moves import ask, create, described, elect, reassign
from rig.brokers.drumlin_cluster import DrumlinCluster, running_cluster
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch, describe_batches
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

_MOVES = 6
_UNDER_WAY = 5
_IDS_IN_PRODUCE, _FOLLOWERS_IN_FETCH = 13, 11
_REFUSALS = {"not_leader_or_follower"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinCluster]:
    settings = {"auto.leader.rebalance.enable": "false", "min.insync.replicas": "1"}
    with running_cluster(tmp_path_factory.mktemp("two"), 2, settings) as cluster:
        yield cluster


class _Topic:
    """One partition with replicas on both brokers."""

    def __init__(self, brokers: dict[int, DrumlinServer], name: str) -> None:
        self.name, self._brokers = name, brokers
        create(brokers, name, (1, 2))
        made = {0: (1, (1, 2), {1, 2})}
        for each in brokers.values():
            wait_until(lambda at=each: described(at, name) == made, "both to know it")  # type: ignore[misc]
        (known,) = ask(brokers[1], "metadata", 12, topics=[{"name": name}])["topics"]
        self.names = {"name": name, "topic": name, "topic_id": known["topic_id"]}

    def lead_by(self, node_id: int) -> None:
        """Have this broker lead, by a reassignment and an election; both know it afterwards."""
        wanted = (node_id, 3 - node_id)
        assert reassign(self._brokers[1], self.name, {0: wanted}) == {0: "none"}
        wait_until(lambda: described(self._brokers[1], self.name)[0][1] == wanted, "the order")
        elect(self._brokers[1], 0, self.name, 0)
        for each in self._brokers.values():
            wait_until(lambda at=each: described(at, self.name)[0][0] == node_id, "the leader")  # type: ignore[misc]

    def of(self, **partition: Any) -> list[dict[str, Any]]:
        kind = "partition_data" if "records" in partition else "partitions"
        keys = ("name", "topic_id") if "records" in partition else ("topic", "topic_id")
        return [{key: self.names[key] for key in keys} | {kind: [partition]}]


class _Writer:
    """Requests to one broker, several of them under way; it does not look for another leader."""

    def __init__(self, server: DrumlinServer, topic: _Topic, version: int) -> None:
        self._client, self._topic, self._version = server.connect(), topic, version
        self._sent: list[int] = []
        self.acknowledged: dict[int, int] = {}
        self.refused: set[int] = set()

    def send(self, number: int) -> None:
        topics = self._topic.of(index=0, records=batch(b"%d" % number))
        self._client.send("produce", self._version, acks=-1, timeout=10_000, topic_data=topics)
        self._sent.append(number)

    def receive(self) -> None:
        for number in self._sent:
            answer = render(self._client.receive("produce", self._version))
            (told,) = answer["responses"][0]["partition_responses"]
            if told["error_code"] == "none":
                self.acknowledged[number] = told["base_offset"]
            else:
                assert told["error_code"] in _REFUSALS, told
                self.refused.add(number)
        self._sent = []

    def close(self) -> None:
        self._client.close()


class _Reader:
    """A session with one broker."""

    def __init__(self, server: DrumlinServer, topic: _Topic, version: int) -> None:
        self._client: RawClient = server.connect()
        self._topic, self._version = topic, version
        self._session = {"session_id": 0, "session_epoch": 0}
        self._is_named = False
        self.found: list[bytes] = []
        self.refusals = 0

    def read(self) -> None:
        """One fetch; the partition is named if its offset has changed."""
        wanted = {"partition": 0, "fetch_offset": len(self.found), "current_leader_epoch": -1}
        wanted |= {"partition_max_bytes": 200, "last_fetched_epoch": -1, "log_start_offset": -1}
        topics = [] if self._is_named else self._topic.of(**wanted)
        fields = {"replica_id": -1, "max_bytes": 200, "min_bytes": 0, "max_wait": 0}
        answer = self._client.ask("fetch", self._version, topics=topics, **fields, **self._session)
        told = render(answer)
        assert told["error_code"] == "none", told
        epoch = self._session["session_epoch"] + 1
        self._session = {"session_id": told["session_id"], "session_epoch": epoch}
        self._is_named = True
        for partition in (part for each in told["responses"] for part in each["partitions"]):
            self._take(partition)

    def _take(self, partition: dict[str, Any]) -> None:
        if partition["error_code"] != "none":
            assert partition["error_code"] in _REFUSALS, partition
            assert not partition["records"]
            self.refusals += 1
        for each in describe_batches(partition["records"] or b""):
            for record in each.get("records", ()):  # the last may be cut off
                offset = each["base_offset"] + record["offset_delta"]
                if offset >= len(self.found):
                    assert offset == len(self.found), "a record was left out"
                    self.found.append(record["value"])
                    self._is_named = False

    def close(self) -> None:
        self._client.close()


@pytest.mark.parametrize(
    ("produce", "fetch"),
    [
        pytest.param(12, 10, id="names-leader-alone"),
        pytest.param(12, 12, id="names"),
        pytest.param(_IDS_IN_PRODUCE, 17, id="ids"),
    ],
)
def test_leadership_moves_between_two_requests(
    cluster: DrumlinCluster, produce: int, fetch: int
) -> None:
    brokers = cluster.brokers
    topic = _Topic(brokers, f"t-{produce}-{fetch}")
    writers = {key: _Writer(each, topic, produce) for key, each in brokers.items()}
    readers = {key: _Reader(each, topic, fetch) for key, each in brokers.items()}
    numbers = itertools.count()
    for move in range(_MOVES):
        for writer in writers.values():
            for _ in range(_UNDER_WAY):
                writer.send(next(numbers))
        topic.lead_by(2 - move % 2)
        for writer in writers.values():
            for _ in range(_UNDER_WAY):
                writer.send(next(numbers))
            writer.receive()
        for _ in range(3):
            for reader in readers.values():
                reader.read()
    acknowledged = {k: at for each in writers.values() for k, at in each.acknowledged.items()}
    refused = set().union(*(each.refused for each in writers.values()))
    assert len(acknowledged) >= _MOVES * _UNDER_WAY
    assert len(refused) >= _MOVES * _UNDER_WAY
    for node_id, reader in readers.items():
        topic.lead_by(node_id)

        def has_all(reader: _Reader = reader) -> bool:
            reader.read()
            return len(reader.found) > max(acknowledged.values())

        wait_until(has_all, f"all records of broker {node_id}")
        values = [int(each) for each in reader.found]
        assert {values[at]: at for at in acknowledged.values()} == acknowledged
        assert set(values) <= acknowledged.keys() | refused
        assert len(values) == len(set(values))
        assert (reader.refusals > 0) == (fetch < _FOLLOWERS_IN_FETCH)
    assert readers[1].found == readers[2].found
    for each in (*writers.values(), *readers.values()):
        each.close()
