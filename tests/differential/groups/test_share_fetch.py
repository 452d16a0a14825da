"""ShareFetch and ShareAcknowledge: what members get, what becomes of it, and what goes wrong.

Members need not be in the group for this: neither broker asks, so scripts do without.
"""

from __future__ import annotations

import uuid

from differential.peer import Peer
from differential.scripts import all_versions, differential
from differential.share_members import (
    Member,
    Producer,
    batches,
    configure,
    fill,
    group_of,
    read_state,
)

_GAP, _ACCEPT, _RELEASE, _REJECT, _RENEW = range(5)


@differential("share_fetch")
def test_accept_and_go_on(peer: Peer) -> None:
    topic = peer.topic()
    group = group_of(peer, topic)
    fill(peer, topic, 10, 5)
    member = Member(peer, group, topic, "m1")
    member.fetch()
    member.acknowledge((0, 9, [_ACCEPT]))
    read_state(peer, topic, group)
    member.acknowledge((10, 14, [_ACCEPT, _GAP, _REJECT, _ACCEPT, _ACCEPT]))
    read_state(peer, topic, group)
    fill(peer, topic, 3)
    member.fetch()
    member.fetch((15, 17, [_ACCEPT]), max_wait=0)
    read_state(peer, topic, group)


@differential("share_fetch")
def test_limits(peer: Peer) -> None:
    """How many records and bytes a request gets, and how they are put together."""
    topic = peer.topic()
    group = group_of(peer, topic)
    fill(peer, topic, 10, 10, 10, 10, 10, 10)
    one, other = (Member(peer, group, topic, name) for name in ("m1", "m2"))
    one.fetch(max_records=1)
    other.fetch(max_records=15, batch_size=5)
    one.fetch(max_bytes=1)
    one.fetch(max_records=0, max_wait=0)
    other.fetch(max_records=20, batch_size=20)
    other.fetch(max_wait=0)


@differential("share_fetch", [2])
def test_strict_limits(peer: Peer) -> None:
    topic = peer.topic()
    group = group_of(peer, topic)
    fill(peer, topic, 10, 10)
    one, other = (Member(peer, group, topic, name) for name in ("m1", "m2"))
    one.fetch(max_records=4, share_acquire_mode=1)
    other.fetch(max_records=3, share_acquire_mode=1)
    other.fetch(max_records=8, share_acquire_mode=1)
    one.fetch(max_records=8, share_acquire_mode=1)
    one.acknowledge((0, 3, [_RELEASE]))
    other.fetch(max_records=2, share_acquire_mode=1)
    other.fetch(max_records=2)


@differential("share_fetch", [2])
def test_release_and_count(peer: Peer) -> None:
    """Others get what is released, with a higher count, until it is given up."""
    topic = peer.topic()
    group = group_of(peer, topic)
    fill(peer, topic, 1, 4)
    one, other = (Member(peer, group, topic, name) for name in ("m1", "m2"))
    one.fetch()
    other.fetch(max_wait=0)
    for member in (one, other, one, other, one):
        member.acknowledge((0, 0, [_RELEASE]))
        read_state(peer, topic, group)
        (other if member is one else one).fetch(max_wait=500)
    one.acknowledge((1, 4, [_RELEASE, _ACCEPT, _REJECT, _RELEASE]))
    read_state(peer, topic, group)
    other.fetch()
    other.acknowledge((1, 1, [_ACCEPT]), (4, 4, [_RELEASE]))
    read_state(peer, topic, group)


@differential("share_fetch", [2])
def test_throttling(peer: Peer) -> None:
    """What is released again and again comes in smaller and smaller parts."""
    topic = peer.topic()
    group = group_of(peer, topic)
    fill(peer, topic, 20, 5)
    member = Member(peer, group, topic, "m1")
    for _ in range(14):
        for first, last in member.fetch(max_wait=500):
            member.acknowledge((first, last, [_RELEASE]))
    read_state(peer, topic, group)


@differential("share_fetch")
def test_refused_acknowledgements(peer: Peer) -> None:
    topic = peer.topic()
    group = group_of(peer, topic)
    fill(peer, topic, 10, 10)
    one, other = (Member(peer, group, topic, name) for name in ("m1", "m2"))
    one.fetch(max_records=5)
    other.fetch(max_records=5)
    for what in (
        [(0, 9, [_ACCEPT, _ACCEPT])],
        [(0, 9, [])],
        [(0, 1, [_ACCEPT, 5])],
        [(0, 1, [-1])],
        [(0, 1, [_RENEW])],
        [(5, 4, [_ACCEPT])],
        [(-1, 4, [_ACCEPT])],
        [(5, 6, [_ACCEPT]), (3, 4, [_ACCEPT])],
        [(0, 25, [_ACCEPT])],
        [(20, 25, [_ACCEPT])],
        [(5, 14, [_ACCEPT])],
        [(10, 11, [_ACCEPT])],
        [(5, 5, [_ACCEPT]), (5, 5, [_ACCEPT])],
        [(0, 4, [_ACCEPT]), (10, 11, [_ACCEPT])],
        [],
    ):
        peer.note(str(what))
        one.acknowledge(*what)
    read_state(peer, topic, group)
    one.acknowledge((0, 4, [_ACCEPT]))
    one.acknowledge((0, 4, [_ACCEPT]))
    one.acknowledge((3, 6, [_ACCEPT]))
    one.acknowledge((5, 9, [_ACCEPT]))
    read_state(peer, topic, group)


@differential("share_fetch")
def test_sessions(peer: Peer) -> None:
    topic = peer.topic()
    group = group_of(peer, topic)
    fill(peer, topic, 2)
    member = Member(peer, group, topic, "m1")
    for epoch in (1, -1, 5):
        member.fetch(epoch=epoch)
        member.acknowledge((0, 0, [_ACCEPT]), epoch=epoch)
    member.acknowledge((0, 0, [_ACCEPT]), epoch=0)
    member.fetch((0, 1, [_ACCEPT]), epoch=0)
    member.fetch()
    for epoch in (2, 0):
        member.acknowledge((0, 0, [_ACCEPT]), epoch=epoch)
    member.fetch(epoch=7)
    member.fetch((0, 0, [_RELEASE]), max_wait=100)
    member.acknowledge((1, 1, [_ACCEPT]))
    member.fetch(epoch=1)
    member.fetch((0, 0, [_ACCEPT]), epoch=-1)
    member.fetch(epoch=-1)
    read_state(peer, topic, group)


@differential("share_fetch", [2])
def test_who_asks(peer: Peer) -> None:
    topic = peer.topic()
    group = group_of(peer, topic)
    for name in ("", "x" * 36, "x" * 37):
        odd = Member(peer, group, topic, name)
        odd.fetch(max_wait=1000)
        odd.acknowledge()
    member = Member(peer, group, topic, "m1")
    member.fetch(max_wait=0, topics=[])
    member.acknowledge(group_id=None)


@differential("share_fetch")
def test_unknown_partitions(peer: Peer) -> None:
    topic = peer.topic()
    group = group_of(peer, topic)
    fill(peer, topic, 3)
    member = Member(peer, group, topic, "m1")
    unknown = peer.call(uuid.UUID(int=0x1234 << 64 | 0x5678), "unknown topic")
    one = {"partition_index": 0, "acknowledgement_batches": []}
    missing = {"partition_index": 7, "acknowledgement_batches": []}
    said = {"partition_index": 0, "acknowledgement_batches": batches([(0, 0, [_ACCEPT])])}
    member.fetch(max_wait=100, topics=[])
    member.acknowledge(topics=[{"topic_id": unknown, "partitions": [said]}])
    member.fetch(topics=[{"topic_id": peer.topic_id(topic), "partitions": [missing]}], max_wait=100)
    not_fetched = said | {"partition_index": 7}
    member.acknowledge(topics=[{"topic_id": peer.topic_id(topic), "partitions": [not_fetched]}])
    member.fetch()
    peer.note("an unknown topic id")
    member.fetch(topics=[{"topic_id": unknown, "partitions": [one]}], max_wait=100)


@differential("share_fetch", [2])
def test_leaving_gives_back(peer: Peer) -> None:
    """What a member has when its session ends goes to others, and does not count."""
    topic = peer.topic()
    group = group_of(peer, topic)
    fill(peer, topic, 6, 6)
    one, other = (Member(peer, group, topic, name) for name in ("m1", "m2"))
    other.fetch(max_records=2)
    one.fetch()
    one.acknowledge((8, 9, [_ACCEPT]))
    one.acknowledge((6, 7, [_ACCEPT]), epoch=-1)
    other.fetch_at_last()
    read_state(peer, topic, group)
    other.fetch((0, 3, [_ACCEPT]), epoch=-1)


@differential("share_fetch", [2])
def test_deleted_records(peer: Peer) -> None:
    """DeleteRecords moves the start offset along."""
    topic = peer.topic()
    group = group_of(peer, topic)
    fill(peer, topic, 10, 10)
    one, other = (Member(peer, group, topic, name) for name in ("m1", "m2"))
    one.fetch(max_records=5)
    partitions = [{"partition_index": 0, "offset": 5}]
    peer.ask(
        "delete_records", 2, topics=[{"name": topic, "partitions": partitions}], timeout=10_000
    )
    other.fetch(max_records=5)
    one.acknowledge((0, 9, [_ACCEPT]))
    # Apache Kafka keeps what was deleted in its state until it comes to read there.
    other.acknowledge((10, 19, [_RELEASE]))
    one.fetch()
    read_state(peer, topic, group)


@differential("share_fetch", [2])
def test_renewing(peer: Peer) -> None:
    """Renewals must be announced, and fetch nothing."""
    topic = peer.topic()
    group = group_of(peer, topic)
    fill(peer, topic, 10)
    one = Member(peer, group, topic, "m1")
    one.fetch()
    nothing = {"max_wait": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    for field in nothing:
        one.fetch((0, 9, [_RENEW]), epoch=1, is_renew_ack=True, **nothing | {field: 1})
    one.fetch((0, 9, [_RENEW]), is_renew_ack=True, **nothing)
    one.fetch((0, 9, [_RENEW]), max_wait=0)
    one.acknowledge((0, 9, [_RENEW]))
    one.acknowledge((0, 4, [_RENEW]), (5, 9, [_ACCEPT]), is_renew_ack=True)
    one.acknowledge((5, 9, [_RENEW]), is_renew_ack=True)
    one.fetch((0, 1, [_RENEW, _ACCEPT]), is_renew_ack=True, **nothing)
    read_state(peer, topic, group)


@differential("share_fetch", [2])
def test_several_partitions(peer: Peer) -> None:
    topic = peer.topic(partitions=3)
    group = group_of(peer, topic, partitions=3)
    member = Member(peer, group, topic, "m1", partitions=3)
    member.fetch(max_wait=1000)  # all are loaded by now
    for partition in range(3):
        fill(peer, topic, 4, partition=partition)
    member.fetch(min_bytes=300)
    topic_id = peer.topic_id(topic)
    member.fetch(
        topics=[], max_wait=100, forgotten_topics_data=[{"topic_id": topic_id, "partitions": [0]}]
    )
    for partition in range(3):
        fill(peer, topic, 2, partition=partition)
    member.fetch(topics=[], min_bytes=150)
    member.fetch(topics=[], max_wait=100)


@differential("share_fetch", [2])
def test_settings_of_a_group(peer: Peer) -> None:
    """The limits of records in flight and of deliveries, and no renewal."""
    topic = peer.topic()
    group = group_of(peer, topic)
    configure(
        peer,
        group,
        share_partition_max_record_locks="100",
        share_delivery_count_limit="2",
        share_renew_acknowledge_enable="false",
    )
    fill(peer, topic, *[30] * 6)
    one, other = (Member(peer, group, topic, name) for name in ("m1", "m2"))
    one.fetch()
    one.fetch(max_wait=0)
    one.acknowledge((40, 44, [_RELEASE]))
    other.fetch()
    one.acknowledge((0, 9, [_RENEW]), is_renew_ack=True)
    one.acknowledge((0, 29, [_ACCEPT]))
    other.fetch(max_records=1)
    other.acknowledge((40, 44, [_RELEASE]))
    read_state(peer, topic, group)
    other.fetch(max_wait=0)


@differential("share_fetch", [2])
def test_aborted_records(peer: Peer) -> None:
    """A group that reads committed is given no aborted records, and none that are undecided."""
    topic = peer.topic()
    group = group_of(peer, topic)
    configure(peer, group, share_isolation_level="read_committed")
    producer = Producer(peer, topic)
    one = Member(peer, group, topic, "m1")
    fill(peer, topic, 2)
    producer.send(3)
    fill(peer, topic, 2)
    one.fetch()
    producer.end(committed=False)
    producer.send(1)
    producer.end(committed=True)
    fill(peer, topic, 1)
    one.fetch(min_bytes=400)
    one.acknowledge((0, 1, [_ACCEPT]), (5, 6, [_ACCEPT]))
    read_state(peer, topic, group)


@differential("share_fetch", [2])
def test_without_state(peer: Peer) -> None:
    """The group's state was never initialised: there is nothing to begin from."""
    topic = peer.topic()
    fill(peer, topic, 2)
    member = Member(peer, peer.unique("nobody"), topic, "m1")
    member.fetch(max_wait=500)
    member.fetch(max_wait=500)


def test_versions_are_the_same() -> None:
    """Scripts use one number for both APIs."""
    assert list(all_versions("share_fetch")) == list(all_versions("share_acknowledge")) == [1, 2]
