"""Topics of several replicas, where these are, and who is asked to move them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from differential.cluster.cluster_peer import ClusterPeer, on_clusters

_AUTOMATIC = {"num_partitions": -1, "replication_factor": -1}


def _assigned(*replicas: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {"partition_index": index, "broker_ids": list(each)} for index, each in enumerate(replicas)
    ]


def create(peer: ClusterPeer, topic: dict[str, Any], **fields: Any) -> None:
    peer.nodes[1].ask("create_topics", topics=[topic], **{"timeout": 10_000} | fields)


@on_clusters("create_topics")
def test_replication_factors(peer: ClusterPeer) -> None:
    for number, factor in enumerate((0, -1, -2, 1, 3, 4, 32767)):
        peer.note(f"replication factor {factor}")
        name = {"name": peer.unique(str(number)), "num_partitions": 2}
        create(peer, name | {"replication_factor": factor}, validate_only=number % 2)


@on_clusters("create_topics")
def test_assignments(peer: ClusterPeer) -> None:
    wrong: dict[str, list[Sequence[int]]] = {
        "as many": [(1, 2), (3, 1)],
        "more": [(1, 2), (1, 2, 3)],
        "fewer": [(1, 2), (3,)],
        "none": [(1, 2), ()],
        "an unknown broker": [(1, 9)],
        "the same twice": [(2, 2)],
    }
    for number, (what, replicas) in enumerate(wrong.items()):
        peer.note(what)
        topic = {"name": peer.unique(str(number)), "assignments": _assigned(*replicas)}
        create(peer, topic | _AUTOMATIC)
        create(peer, topic | {"num_partitions": 2, "replication_factor": 2})


@on_clusters("create_topics", versions=[7])
def test_more_in_sync_than_replicas(peer: ClusterPeer) -> None:
    configs = [{"name": "min.insync.replicas", "value": "3"}]
    name = {"name": peer.unique("t"), "num_partitions": 1, "replication_factor": 2}
    create(peer, name | {"configs": configs})


@on_clusters("create_partitions")
def test_more_partitions(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    tried: dict[str, tuple[int, list[Sequence[int]] | None]] = {
        "an unknown broker": (2, [(1, 9)]),
        "fewer replicas": (2, [(1,)]),
        "more replicas": (2, [(1, 2, 3)]),
        "the same twice": (2, [(1, 1)]),
        "no replica": (2, [()]),
        "more assignments": (2, [(1, 2), (2, 1)]),
        "fewer assignments": (3, [(1, 2)]),
        "as many as there are": (1, [(1, 2)]),
        "right": (3, [(3, 1), (2, 3)]),
        "without an assignment": (5, None),
    }
    for what, (count, replicas) in tried.items():
        peer.note(what)
        given = None if replicas is None else [{"broker_ids": list(each)} for each in replicas]
        wanted = {"name": topic, "count": count, "assignments": given}
        peer.nodes[2].ask(topics=[wanted], timeout=10_000, validate_only=False)


@on_clusters("delete_topics")
def test_topics_are_deleted_by_any(peer: ClusterPeer) -> None:
    for node_id in peer.nodes:
        topic = peer.topic(str(node_id), (1, 2))
        by_name = {"name": topic, "topic_id": None}
        fields = {"topic_names": [topic], "topics": [by_name], "timeout": 10_000}
        peer.nodes[node_id].ask(**fields)


@on_clusters("alter_partition_reassignments", versions=[0])
def test_reassignments_that_are_refused(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    tried: dict[str, tuple[str, int, Sequence[int] | None]] = {
        "an unknown topic": (peer.unique("unknown"), 0, (1, 2)),
        "an unknown partition": (topic, 7, (1, 2)),
        "an unknown broker": (topic, 0, (1, 9)),
        "a negative broker": (topic, 0, (-1, 1)),
        "the same twice": (topic, 0, (1, 1)),
        "no replica": (topic, 0, ()),
        "nothing to cancel": (topic, 0, None),
        "nothing to cancel of an unknown partition": (topic, 7, None),
        "as it is": (topic, 0, (1, 2)),
    }
    for what, (name, index, replicas) in tried.items():
        peer.note(what)
        target = None if replicas is None else list(replicas)
        partitions = [{"partition_index": index, "replicas": target}]
        fields = {"topics": [{"name": name, "partitions": partitions}], "timeout": 10_000}
        peer.nodes[3].ask(**fields)


@on_clusters("alter_partition_reassignments", versions=[1])
def test_the_number_of_replicas_may_be_fixed(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    for replicas in ([1, 2, 3], [1], [2, 1]):
        partitions = [{"partition_index": 0, "replicas": replicas}]
        topics = [{"name": topic, "partitions": partitions}]
        fields = {"topics": topics, "timeout": 10_000, "allow_replication_factor_change": False}
        peer.nodes[3].ask(**fields)


@on_clusters("list_partition_reassignments")
def test_no_reassignments(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    unknown = peer.unique("unknown")
    for topics in (
        None,
        [],
        [{"name": topic, "partition_indexes": [0, 7]}],
        [{"name": unknown, "partition_indexes": [0]}],
    ):
        peer.nodes[2].ask(topics=topics, timeout=10_000)


@on_clusters("elect_leaders")
def test_elections(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    unknown = peer.unique("unknown")
    for kind in (0, 1) if peer.version else (0,):
        for name, partitions in ((topic, [0]), (topic, [7]), (unknown, [0]), (topic, [])):
            wanted = [{"topic": name, "partitions": partitions}]
            peer.nodes[2].ask(election_type=kind, topic_partitions=wanted, timeout=10_000)
    peer.note("what was moved may be led by the first again")
    partition = {"partition_index": 0, "replicas": [2, 1]}
    topics = [{"name": topic, "partitions": [partition]}]
    peer.nodes[1].ask("alter_partition_reassignments", 0, topics=topics, timeout=10_000)
    wanted = [{"topic": topic, "partitions": [0]}]
    for _ in range(2):
        peer.nodes[2].ask(election_type=0, topic_partitions=wanted, timeout=10_000)
    peer.await_leaders(topic, 2)
    peer.ask_all("metadata", topics=[{"name": topic}], allow_auto_topic_creation=False)


@on_clusters("describe_cluster")
def test_brokers(peer: ClusterPeer) -> None:
    peer.ask_all(endpoint_type=1, include_cluster_authorized_operations=False)
    peer.ask_all(endpoint_type=1, include_fenced_brokers=True)
    if peer.version:
        peer.ask_all(endpoint_type=7)


@on_clusters("describe_topic_partitions")
def test_partitions_by_pages(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2), (2, 3), (3, 1))
    other = peer.topic("u", (3, 2))
    names = [{"name": each} for each in (topic, other, peer.unique("unknown"))]
    peer.ask_all(topics=names, response_partition_limit=2000, cursor=None)
    peer.ask_all(topics=names, response_partition_limit=2, cursor=None)
    at = {"topic_name": topic, "partition_index": 2}
    peer.ask_all(topics=names, response_partition_limit=2, cursor=at)


@on_clusters("unregister_broker")
def test_an_unknown_broker_is_forgotten(peer: ClusterPeer) -> None:
    for broker_id in (9, -1):
        peer.nodes[1].ask(broker_id=broker_id)


@on_clusters("alter_replica_log_dirs", versions=[1, 2])
def test_log_dirs_of_others(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    for name in (topic, peer.unique("unknown")):
        topics = [{"name": name, "partitions": [0]}]
        peer.nodes[3].ask(dirs=[{"path": "/no/such/dir", "topics": topics}])


@on_clusters("describe_configs", versions=[4])
def test_configurations_of_other_brokers(peer: ClusterPeer) -> None:
    """A broker tells its own, and what all have in common."""
    keys = ["log.cleaner.threads"]
    for name in ("2", "9", "x"):
        wanted = {"resource_type": 4, "resource_name": name, "configuration_keys": keys}
        peer.nodes[1].ask(resources=[wanted], include_synonyms=True)


@on_clusters("incremental_alter_configs", versions=[1])
def test_configurations_are_changed_by_any(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    change = {"name": "retention.ms", "config_operation": 0, "value": "4711"}
    resource = {"resource_type": 2, "resource_name": topic, "configs": [change]}
    peer.nodes[2].ask(resources=[resource], validate_only=False)
    change = {"name": "log.cleaner.threads", "config_operation": 0, "value": "2"}
    for name in ("3", "9", "x"):
        resource = {"resource_type": 4, "resource_name": name, "configs": [change]}
        peer.nodes[2].ask(resources=[resource], validate_only=True)
