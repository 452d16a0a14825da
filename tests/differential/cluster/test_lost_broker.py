"""What clients are told when a broker is gone: who leads then, what nobody leads, what still goes.

A broker of each cluster is killed once for all of it, as its end takes its time to be noticed.
"""

from __future__ import annotations

from typing import Any

from differential.cluster.cluster_peer import ClusterPeer, on_clusters
from differential.cluster.test_other_leaders import end_of_epoch, fetch, list_offsets
from differential.now import NOW
from differential.scripts import all_versions
from rig.data.batches import batch
from rig.waiting import wait_until

_LOST = 3
_WAIT_S = 60.0


@on_clusters("metadata", versions=[12])
def test_a_broker_is_lost_and_comes_back(peer: ClusterPeer) -> None:
    topics = {
        "handed on": peer.topic("a", (3, 1, 2)),
        "followed": peer.topic("b", (1, 3)),
        "alone": peer.topic("c", (3,)),
        "two of two": peer.topic("d", (1, 3), configs={"min.insync.replicas": "2"}),
    }
    for each in topics.values():
        peer.produce(_leader(peer, each), each, b"a", b"b")
    lost = peer.cluster.brokers[_LOST]
    lost.kill()
    try:
        _await_loss(peer, topics)
        for what, topic in topics.items():
            peer.note(what)
            _ask_about(peer, topic)
        _create(peer)
    finally:
        lost.start()
    peer.note("it is back")
    _await_return(peer, list(topics.values()))
    for topic in topics.values():
        # Without leader epochs: how many there were depends on who was first, the broker's election
        # or its look at what it may have lost.
        peer.nodes[1].ask("metadata", 5, topics=[{"name": topic}])
        _produce(peer, _leader(peer, topic), topic, -1)


def _leader(peer: ClusterPeer, topic: str) -> int:
    return int(_described(peer, 1, topic)["leader_id"])


def _described(peer: ClusterPeer, node_id: int, topic: str) -> Any:
    asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    (found,) = peer.quietly(node_id, "metadata", **asked)["topics"]
    return found["partitions"][0]


def _await_loss(peer: ClusterPeer, topics: dict[str, str]) -> None:
    """Both brokers know it, in all that it led or followed, and who leads instead."""

    def is_known() -> bool:
        for node_id in peer.alive:
            for what, topic in topics.items():
                known = _described(peer, node_id, topic)
                if (known["leader_id"] == -1) != (what == "alone"):
                    return False
                if what != "alone" and _LOST in known["isr_nodes"]:
                    return False
        return True

    wait_until(is_known, f"broker {_LOST} to be missed on {peer.name}", _WAIT_S)
    for each in topics.values():
        peer.await_leaders(each, _leader(peer, each))


def _await_return(peer: ClusterPeer, topics: list[str]) -> None:

    def is_known() -> bool:
        return all(
            sorted(known["isr_nodes"]) == sorted(known["replica_nodes"]) and known["leader_id"] > 0
            for node_id in peer.nodes
            for known in (_described(peer, node_id, topic) for topic in topics)
        )

    wait_until(is_known, f"broker {_LOST} to be back on {peer.name}", _WAIT_S)
    for each in topics:
        peer.await_leaders(each, _leader(peer, each))


def _ask_about(peer: ClusterPeer, topic: str) -> None:
    for node_id in peer.alive:
        node = peer.nodes[node_id]
        for version in (0, 1, 4, 5, 7, 9, 12):
            node.ask("metadata", version, topics=[{"name": topic}])
        names = [{"name": topic}]
        node.ask("describe_topic_partitions", 0, topics=names, response_partition_limit=100)
        for acks in (1, -1):
            _produce(peer, node_id, topic, acks)
    _await_followers(peer, topic)
    for node_id in peer.alive:
        node = peer.nodes[node_id]
        for version in (10, 11, 12, all_versions("fetch")[-1]):
            fetch(node, peer, topic, version=version)
        list_offsets(node, topic, -1, -2)
        end_of_epoch(node, topic, 0, 1)
        deleted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
        if node_id != _leader(peer, topic):
            node.ask("delete_records", 2, topics=deleted, timeout=1000)
    wanted = [{"topic": topic, "partitions": [0]}]
    for kind in (0, 1):
        fields = {"election_type": kind, "topic_partitions": wanted, "timeout": 10_000}
        peer.nodes[1].ask("elect_leaders", **fields)
    listed = [{"name": topic, "partition_indexes": [0]}]
    peer.nodes[1].ask("list_partition_reassignments", topics=listed, timeout=10_000)


def _await_followers(peer: ClusterPeer, topic: str) -> None:
    """All that is committed is known to be so on each of its replicas."""
    known = _described(peer, 1, topic)
    leader = known["leader_id"]
    if leader in peer.alive:
        asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
        topics = [{"name": topic, "partitions": [asked]}]
        answer = peer.quietly(leader, "list_offsets", replica_id=-1, topics=topics)
        offset = answer["topics"][0]["partitions"][0]["offset"]
        for each in set(known["isr_nodes"]).intersection(peer.alive):
            peer.await_high_watermark(each, topic, offset)


def _produce(peer: ClusterPeer, node_id: int, topic: str, acks: int) -> None:
    data = [{"index": 0, "records": batch(b"value", timestamp=NOW)}]
    topics = [{"name": topic, "partition_data": data}]
    peer.nodes[node_id].ask("produce", acks=acks, timeout=10_000, topic_data=topics)


def _create(peer: ClusterPeer) -> None:
    peer.note("topics that are created meanwhile")
    for factor in (2, 3):
        topic = {"name": peer.unique(str(factor)), "num_partitions": 1}
        topics = [topic | {"replication_factor": factor}]
        peer.nodes[1].ask("create_topics", topics=topics, timeout=10_000)
    entry = {"partition_index": 0, "broker_ids": [3, 1]}
    topic = {"name": peer.unique("e"), "num_partitions": -1, "replication_factor": -1}
    topics = [topic | {"assignments": [entry]}]
    peer.nodes[1].ask("create_topics", topics=topics, timeout=10_000)
    for version in all_versions("describe_cluster"):
        peer.nodes[1].ask("describe_cluster", version, include_fenced_brokers=False)
