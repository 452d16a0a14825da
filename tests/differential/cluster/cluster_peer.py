"""Three brokers as a script sees them: each can be asked; one transcript of what all have said.

`@on_clusters` makes such a script a test, as `@differential` does with one for a single broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from differential.compare import Step
from differential.normalise import Normaliser
from differential.now import NOW
from differential.peer import Peer
from differential.scripts import Pair, all_versions, to_compare
from rig.brokers.drumlin_cluster import DrumlinCluster
from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.servers.kafka_cluster import KafkaCluster
from rig.waiting import wait_until

Cluster = KafkaCluster | DrumlinCluster
Clusters = Pair[Cluster]
Script = Callable[["ClusterPeer"], None]

#: What a script asks beside the API under test, unless it names a version.
_VERSIONS = {
    "alter_partition_reassignments": 1,
    "create_topics": 7,
    "elect_leaders": 2,
    "fetch": 12,
    "find_coordinator": 6,
    "list_offsets": 7,
    "list_partition_reassignments": 0,
    "metadata": 12,
    "offset_for_leader_epoch": 4,
    "produce": 12,
}
_SETUP_TIMEOUT_S = 30.0
#: Sets, whatever order they are told in.
_SETS = frozenset({"isr_nodes", "offline_replicas", "eligible_leader_replicas", "adding_replicas"})


class ClusterNormaliser(Normaliser):
    """Knows the brokers' ports; who is controller, or coordinates something, is any of them."""

    def __init__(self, ports: Mapping[int, int]) -> None:
        super().__init__(0)
        self._nodes = {port: node_id for node_id, port in ports.items()}
        self._coordinators: dict[str, int] = {}

    def __call__(self, tree: Any, field: str = "") -> Any:
        if field in _SETS and isinstance(tree, list):
            tree = sorted(tree)
        if field == "controller_id" and tree in self._nodes.values():
            return "<one of them>"
        return super().__call__(tree, field)

    def _structure(self, tree: dict[str, Any]) -> dict[str, Any]:
        if {"node_id", "port", "error_code"} <= tree.keys():
            tree = self._coordinator(tree)
        return super()._structure(tree)

    def _scalar(self, value: Any, field: str) -> Any:
        if field == "port" and value in self._nodes:
            return f"<port of {self._nodes[value]}>"
        return super()._scalar(value, field)

    def _coordinator(self, found: dict[str, Any]) -> dict[str, Any]:
        """Which one it is differs; all brokers must name the same one, and its port."""
        node_id, key = found["node_id"], found.get("key", "")
        if self._nodes.get(found["port"]) != node_id:
            return found
        first = self._coordinators.setdefault(key, node_id)
        said = "the coordinator" if first == node_id else f"not broker {first}"
        return found | {"node_id": f"<{said}>", "port": "<its port>"}


class Node(Peer):
    """One of the brokers; what it answers goes into the transcript of all."""

    def __init__(self, of: ClusterPeer, node_id: int, port: int, script: str) -> None:
        super().__init__(of.name, port, script, of.api, of.version)
        self.node_id = node_id
        self._normaliser = of.normaliser
        self.steps = of.steps

    def version_of(self, api: str) -> int:
        return self.version if api == self.api else _VERSIONS[api]


class ClusterPeer:
    """A cluster, the API under test, and what a script has learnt so far.

    Attributes:
        nodes: the brokers by id.
    """

    def __init__(self, name: str, cluster: Cluster, script: str, api: str, version: int) -> None:
        self.name, self.cluster, self.api, self.version = name, cluster, api, version
        self.steps: list[Step] = []
        ports = {node_id: each.port for node_id, each in cluster.brokers.items()}
        self.normaliser = ClusterNormaliser(ports)
        self._script = f"{api}-{script.removeprefix('test_')}-v{version}"
        self.topic_ids: dict[str, Any] = {}
        self.nodes = {each: Node(self, each, port, script) for each, port in ports.items()}

    def close(self) -> None:
        for each in self.nodes.values():
            each.close()

    def note(self, what: str) -> None:
        """Says in a report what the steps that follow are about."""
        for each in self.nodes.values():
            each.note(what)

    def unique(self, name: str) -> str:
        """A name that no other script uses; the same on both clusters."""
        unique = f"{self._script}-{name}"
        self.normaliser.keep(unique)
        return unique

    def ask_all(self, api: str | None = None, version: int | None = None, **fields: Any) -> None:
        """The same request to one broker after the other."""
        for each in self.nodes.values():
            each.ask(api, version, **fields)

    def quietly(self, node_id: int, api: str, version: int | None = None, **fields: Any) -> Any:
        """Set-up: the answer is not compared."""
        version = _VERSIONS[api] if version is None else version
        with RawClient(self.cluster.brokers[node_id].port, "setup") as client:
            return render(client.ask(api, version, **fields))

    def topic(
        self,
        name: str,
        *replicas: Sequence[int],
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Set-up: a topic whose partitions are there, and are ready for use; its full name."""
        unique = self.unique(name)
        topic = {
            "name": unique,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [
                {"partition_index": index, "broker_ids": list(each)}
                for index, each in enumerate(replicas)
            ],
            "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
        }
        answer = self.quietly(1, "create_topics", topics=[topic], timeout=10_000)
        assert answer["topics"][0]["error_code"] == "none", answer
        self.await_leaders(unique, *(each[0] for each in replicas))
        return unique

    def await_leaders(self, topic: str, *leaders: int) -> None:
        """Set-up: wait until all brokers know who leads, and those that lead do."""

        def are_known() -> bool:
            for node_id in self.alive:
                asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
                (found,) = self.quietly(node_id, "metadata", **asked)["topics"]
                known = {each["partition_index"]: each for each in found["partitions"]}
                if {key: each["leader_id"] for key, each in known.items()} != dict(
                    enumerate(leaders)
                ):
                    return False
                self.topic_ids[topic] = found["topic_id"]
                self.normaliser.know(found["topic_id"], f"id of {topic}")
            return all(
                leader < 0 or self._has_offsets(leader, topic, index)
                for index, leader in enumerate(leaders)
            )

        wait_until(are_known, f"the leaders of {topic} on {self.name}", _SETUP_TIMEOUT_S)

    def _has_offsets(self, node_id: int, topic: str, index: int) -> bool:
        wanted = {"partition_index": index, "current_leader_epoch": -1, "timestamp": -1}
        topics = [{"name": topic, "partitions": [wanted]}]
        answer = self.quietly(node_id, "list_offsets", replica_id=-1, topics=topics)
        return bool(answer["topics"][0]["partitions"][0]["error_code"] == "none")

    @property
    def alive(self) -> list[int]:
        """Brokers whose processes run."""
        return [key for key, each in self.cluster.brokers.items() if each.process is not None]

    def produce(self, node_id: int, topic: str, *values: bytes, partition: int = 0) -> None:
        """Set-up: one batch, which all in-sync replicas have when this returns."""
        data = [{"index": partition, "records": batch(*values, timestamp=NOW)}]
        topics = [{"name": topic, "partition_data": data}]
        answer = self.quietly(node_id, "produce", acks=-1, timeout=10_000, topic_data=topics)
        (result,) = answer["responses"][0]["partition_responses"]
        assert result["error_code"] == "none", result

    def await_high_watermark(self, node_id: int, topic: str, offset: int) -> None:
        """Set-up: wait until a replica of partition 0 knows that so many are committed."""
        wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
        topics = [{"topic": topic, "partitions": [wanted | {"current_leader_epoch": -1}]}]
        asked = {"max_bytes": 1, "session_epoch": -1, "replica_id": -1, "topics": topics}

        def is_known() -> bool:
            (found,) = self.quietly(node_id, "fetch", **asked)["responses"][0]["partitions"]
            return bool(found["error_code"] == "none" and found["high_watermark"] == offset)

        wait_until(is_known, f"{offset} records on broker {node_id}", _SETUP_TIMEOUT_S)

    def move_leader(self, topic: str, *replicas: int) -> None:
        """Set-up: partition 0 has these replicas, and is led by the first, in a new epoch."""
        partition = {"partition_index": 0, "replicas": list(replicas)}
        topics = [{"name": topic, "partitions": [partition]}]
        self.quietly(1, "alter_partition_reassignments", topics=topics, timeout=10_000)
        elected = [{"topic": topic, "partitions": [0]}]
        asked = {"election_type": 0, "topic_partitions": elected, "timeout": 10_000}
        listed = {"topics": None, "timeout": 10_000}

        def is_moved() -> bool:
            if self.quietly(1, "list_partition_reassignments", **listed)["topics"]:
                return False
            self.quietly(1, "elect_leaders", **asked)
            (found,) = self.quietly(1, "metadata", topics=[{"name": topic}])["topics"]
            return bool(found["partitions"][0]["leader_id"] == replicas[0])

        wait_until(is_moved, f"broker {replicas[0]} to lead {topic}", _SETUP_TIMEOUT_S)
        self.await_leaders(topic, replicas[0])

    def elsewhere(self, key_type: int, key: str) -> Node:
        """A broker that does not coordinate this group, transaction or share partition."""
        asked = {"key_type": key_type, "coordinator_keys": [key]}

        def found() -> int | None:
            told = [
                self.quietly(each, "find_coordinator", **asked)["coordinators"][0]
                for each in self.nodes
            ]
            if any(each["error_code"] != "none" for each in told):
                return None
            (node_id,) = {each["node_id"] for each in told}
            return int(node_id)

        coordinator = wait_until(found, f"the coordinator of {key}", _SETUP_TIMEOUT_S)
        return self.nodes[coordinator % len(self.nodes) + 1]


def on_clusters(
    api: str, versions: Iterable[int] | None = None
) -> Callable[[Script], Callable[..., None]]:
    """Makes a script of requests a test of one API, for every version unless some are named."""

    def decorate(script: Script) -> Callable[..., None]:
        name = script.__name__

        def test(clusters: Clusters, version: int) -> None:
            def run(kind: str, cluster: Cluster) -> tuple[list[Step], Any]:
                peer = ClusterPeer(kind, cluster, name, api, version)
                try:
                    script(peer)
                except OSError as error:
                    raise AssertionError(f"the script broke off on {kind}: {error!r}") from error
                finally:
                    peer.close()
                return peer.steps, None

            what = f"{api} v{version}, {name}"
            clusters.compare(script.__module__, f"{name}[{version}]", run, what)

        test.__name__ = test.__qualname__ = name
        test.__doc__ = script.__doc__
        test.__module__ = script.__module__
        compared = to_compare(api, versions or all_versions(api))
        marked: Any = pytest.mark.parametrize("version", compared)(test)
        for mark in (pytest.mark.kafka, pytest.mark.zookeeper, pytest.mark.slow):
            marked = mark(marked)
        return marked  # type: ignore[no-any-return]

    return decorate
