"""Data that is asked for where its leader is not: by an old epoch, of a follower, of a stranger."""

from __future__ import annotations

from typing import Any

from differential.cluster.cluster_peer import ClusterPeer, Node, on_clusters
from differential.now import NOW
from differential.scripts import all_versions, newest
from rig.data.batches import batch


def produce(node: Node, peer: ClusterPeer, topic: str, *partitions: int, acks: int = 1) -> None:
    data = [{"index": each, "records": batch(b"value", timestamp=NOW)} for each in partitions]
    names = {"name": topic, "topic_id": peer.topic_ids.get(topic)}
    topics = [names | {"partition_data": data}]
    node.ask("produce", acks=acks, timeout=10_000, topic_data=topics)


def fetch(
    node: Node,
    peer: ClusterPeer,
    topic: str,
    partition: int = 0,
    epoch: int = -1,
    **fields: Any,
) -> Any:
    wanted = {
        "partition": partition,
        "fetch_offset": fields.pop("offset", 0),
        "current_leader_epoch": epoch,
        "last_fetched_epoch": fields.pop("last_epoch", -1),
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    names = {"topic": topic, "topic_id": peer.topic_ids.get(topic)}
    plain = {
        "max_bytes": 1 << 20,
        "min_bytes": 0,
        "max_wait": 0,
        "session_epoch": -1,
        "replica_id": -1,
    }
    topics = [names | {"partitions": [wanted]}]
    return node.ask("fetch", fields.pop("version", None), topics=topics, **plain | fields)


def list_offsets(node: Node, topic: str, *timestamps: int, epoch: int = -1, index: int = 0) -> None:
    for timestamp in timestamps:
        wanted = {"partition_index": index, "current_leader_epoch": epoch, "timestamp": timestamp}
        topics = [{"name": topic, "partitions": [wanted]}]
        node.ask("list_offsets", replica_id=-1, topics=topics, timeout=5000)


def end_of_epoch(node: Node, topic: str, *epochs: int, current: int = -1) -> None:
    for epoch in epochs:
        wanted = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
        topics = [{"topic": topic, "partitions": [wanted]}]
        node.ask("offset_for_leader_epoch", replica_id=-1, topics=topics)


@on_clusters("metadata")
def test_from_each_broker(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2), (2, 3), (3, 1), (2, 1))
    peer.ask_all(topics=[{"name": topic}], allow_auto_topic_creation=False)


@on_clusters("metadata", versions=range(4, 14))
def test_unknown_topics(peer: ClusterPeer) -> None:
    unknown = {"name": peer.unique("unknown")}
    peer.ask_all(topics=[unknown], allow_auto_topic_creation=False)


@on_clusters("metadata", versions=range(12, 14))
def test_by_id_from_each_broker(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (3, 2))
    peer.ask_all(topics=[{"topic_id": peer.topic_ids[topic], "name": None}])


@on_clusters("produce", versions=range(3, 14))
def test_a_broker_that_does_not_lead(peer: ClusterPeer) -> None:
    """The leader, and where it is, are in the answer (KIP-951)."""
    topic = peer.topic("t", (1, 2), (2, 1), (3, 1))
    for acks in (1, -1):
        produce(peer.nodes[2], peer, topic, 0, acks=acks)
        produce(peer.nodes[2], peer, topic, 0, 1, 2, 3, acks=acks)
    peer.note("a broker without a replica")
    produce(peer.nodes[3], peer, topic, 0)


@on_clusters("produce", versions=range(3, 14))
def test_no_answer_asked_for(peer: ClusterPeer) -> None:
    """The end of the connection says that something is wrong, as there is no answer to say it."""
    topic = peer.topic("t", (1, 2))
    produce(peer.nodes[2], peer, topic, 0, acks=0)


@on_clusters("produce", versions=[newest("produce")])
def test_more_in_sync_than_there_are_replicas(peer: ClusterPeer) -> None:
    """A topic with fewer replicas than `min.insync.replicas` needs all it has, and no more."""
    configs = {"min.insync.replicas": "2"}
    topic = peer.topic("t", (1,), configs=configs)
    for acks in (1, -1):
        produce(peer.nodes[1], peer, topic, 0, acks=acks)


@on_clusters("fetch")
def test_a_follower_is_read(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    peer.produce(1, topic, b"a", b"b")
    peer.await_high_watermark(2, topic, 2)
    for offset in (0, 2, -1):
        fetch(peer.nodes[2], peer, topic, offset=offset)
    peer.note("beyond the end of a follower")
    fetch(peer.nodes[2], peer, topic, offset=3)
    peer.note("a rack is named")
    fetch(peer.nodes[2], peer, topic, rack_id="rack-2")
    fetch(peer.nodes[2], peer, topic, rack_id="rack-1")
    peer.note("a broker without a replica")
    fetch(peer.nodes[3], peer, topic)
    fetch(peer.nodes[3], peer, topic, partition=1)


@on_clusters("fetch", versions=range(11, 19))
def test_the_nearest_replica(peer: ClusterPeer) -> None:
    """The leader names a follower in the reader's rack, once that has what is to be read."""
    topic = peer.topic("t", (1, 2))
    peer.produce(1, topic, b"a", b"b")
    peer.await_high_watermark(2, topic, 2)
    for rack in ("rack-1", "rack-2", "rack-3", "nowhere", ""):
        fetch(peer.nodes[1], peer, topic, rack_id=rack)
    fetch(peer.nodes[1], peer, topic, offset=2, rack_id="rack-2")
    fetch(peer.nodes[1], peer, topic, offset=9, rack_id="rack-2")


@on_clusters("fetch", versions=range(9, 19))
def test_fetches_of_other_epochs(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    peer.produce(1, topic, b"a")
    peer.move_leader(topic, 2, 1)
    peer.produce(2, topic, b"b")
    peer.await_high_watermark(1, topic, 2)
    for node_id in (2, 1, 3):
        peer.note(f"broker {node_id}")
        for epoch in (-1, 0, 1, 2):
            fetch(peer.nodes[node_id], peer, topic, epoch=epoch)


@on_clusters("fetch", versions=range(12, 19))
def test_diverging_epochs(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    peer.produce(1, topic, b"a")
    peer.move_leader(topic, 2, 1)
    peer.produce(2, topic, b"b")
    peer.await_high_watermark(1, topic, 2)
    for last_epoch, offset in ((0, 1), (0, 2), (1, 2), (2, 2), (0, 0), (1, 9)):
        fetch(peer.nodes[2], peer, topic, epoch=1, last_epoch=last_epoch, offset=offset)


@on_clusters("fetch", versions=range(7, 19))
def test_a_session_whose_leader_moves(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    peer.produce(1, topic, b"a")
    peer.await_high_watermark(2, topic, 1)
    known = fetch(peer.nodes[1], peer, topic, epoch=0, session_epoch=0)
    session = {"session_id": known.session_id, "max_bytes": 1 << 20, "replica_id": -1}
    peer.nodes[1].ask(session_epoch=1, topics=[], **session)
    peer.move_leader(topic, 2, 1)
    peer.produce(2, topic, b"b")
    peer.await_high_watermark(1, topic, 2)
    for session_epoch in (2, 3):
        peer.nodes[1].ask(session_epoch=session_epoch, topics=[], **session)
    peer.move_leader(topic, 1, 2)
    for session_epoch in (4, 5):
        peer.nodes[1].ask(session_epoch=session_epoch, topics=[], **session)


@on_clusters("list_offsets")
def test_offsets_of_a_follower(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    peer.produce(1, topic, b"a", b"b")
    peer.await_high_watermark(2, topic, 2)
    for node_id in (2, 3):
        list_offsets(peer.nodes[node_id], topic, -1, -2, 0)
    list_offsets(peer.nodes[3], topic, -1, index=7)


@on_clusters("list_offsets", versions=range(4, 12))
def test_offsets_of_other_epochs(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    peer.produce(1, topic, b"a")
    peer.move_leader(topic, 2, 1)
    for node_id in (2, 1):
        for epoch in (0, 1, 2):
            list_offsets(peer.nodes[node_id], topic, -1, -2, epoch=epoch)
    peer.note("nothing has been committed in the epoch yet")
    list_offsets(peer.nodes[2], topic, -1, -2, -3, 0)


@on_clusters("offset_for_leader_epoch")
def test_ends_of_epochs(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    peer.produce(1, topic, b"a")
    peer.move_leader(topic, 2, 1)
    peer.produce(2, topic, b"b")
    for node_id in (2, 1, 3):
        end_of_epoch(peer.nodes[node_id], topic, -1, 0, 1, 2)
    for current in (0, 1, 2):
        end_of_epoch(peer.nodes[2], topic, 0, current=current)
        end_of_epoch(peer.nodes[1], topic, 0, current=current)


@on_clusters("delete_records")
def test_records_are_deleted_where_they_are_led(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    peer.produce(1, topic, b"a", b"b")
    for node_id in (2, 3, 1):
        for offset in (9, 1, -1):
            partition = {"partition_index": 0, "offset": offset}
            topics = [{"name": topic, "partitions": [partition]}]
            peer.nodes[node_id].ask(topics=topics, timeout=10_000)


@on_clusters("describe_producers")
def test_producers_of_a_follower(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    peer.ask_all(topics=[{"name": topic, "partition_indexes": [0, 5]}])


@on_clusters("describe_log_dirs", versions=range(1, all_versions("describe_log_dirs")[-1] + 1))
def test_log_dirs_of_each(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    peer.produce(1, topic, b"a")
    peer.await_high_watermark(2, topic, 1)
    peer.ask_all(topics=[{"topic": topic, "partitions": [0]}])
