"""Metadata: topics by name and id, auto-creation, invalid names."""

from __future__ import annotations

import uuid

from differential.peer import Peer
from differential.scripts import differential


@differential("metadata")
def test_topics_by_name(peer: Peer) -> None:
    topic = peer.topic(partitions=3)
    peer.ask(topics=[{"name": topic}], include_topic_authorized_operations=False)


@differential("metadata", versions=range(8, 14))
def test_authorized_operations(peer: Peer) -> None:
    topic = peer.topic()
    peer.ask(
        topics=[{"name": topic}],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )


@differential("metadata")
def test_no_topics(peer: Peer) -> None:
    """From version 1 on, an empty list means none; in version 0 it means all."""
    if peer.version > 0:
        peer.ask(topics=[])


@differential("metadata", versions=range(4, 14))
def test_unknown_topic_is_not_created(peer: Peer) -> None:
    topic = peer.unique("unknown")
    for _ in range(2):
        peer.ask(topics=[{"name": topic}], allow_auto_topic_creation=False)


@differential("metadata")
def test_auto_creation(peer: Peer) -> None:
    """The first answer names the topic as unknown or without a leader; then it is there."""
    topic = peer.unique("automatic")
    peer.ask(topics=[{"name": topic}], allow_auto_topic_creation=True)
    peer.await_topic(topic, partitions=2)
    peer.ask(topics=[{"name": topic}], allow_auto_topic_creation=True)


@differential("metadata")
def test_invalid_names(peer: Peer) -> None:
    names = ["", ".", "..", "a b", "a/b", "ü", "x" * 250, "a\x00b"]
    for name in names:
        peer.ask(topics=[{"name": name}], allow_auto_topic_creation=True)


@differential("metadata")
def test_a_topic_twice(peer: Peer) -> None:
    topic = peer.topic()
    peer.ask(topics=[{"name": topic}, {"name": topic}])


@differential("metadata")
def test_colliding_name_is_not_created(peer: Peer) -> None:
    """`a.b` and `a_b` would share a metric's name: the second one is refused."""
    peer.topic("with.dot")
    peer.ask(topics=[{"name": peer.unique("with_dot")}], allow_auto_topic_creation=True)


@differential("metadata", versions=range(12, 14))
def test_topics_by_id(peer: Peer) -> None:
    topic = peer.topic()
    peer.ask(topics=[{"topic_id": peer.topic_id(topic), "name": None}])
    unknown = peer.call(uuid.UUID(int=77), "an unknown id")
    peer.ask(topics=[{"topic_id": unknown, "name": None}])
    both = [{"topic_id": peer.topic_id(topic), "name": None}, {"topic_id": unknown, "name": None}]
    peer.ask(topics=both)


@differential("metadata", versions=range(10, 14))
def test_id_and_name_at_once(peer: Peer) -> None:
    """Only one of the two may be given (KIP-516); below version 12 the id is of no use."""
    topic = peer.topic()
    peer.ask(topics=[{"topic_id": peer.topic_id(topic), "name": topic}])
    peer.ask(topics=[{"topic_id": None, "name": None}])
