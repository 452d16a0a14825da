"""Fetch: what comes back from where, size limits (KIP-74) and incremental sessions (KIP-227)."""

from __future__ import annotations

import uuid
from typing import Any

from differential.now import NOW
from differential.peer import Peer
from differential.scripts import all_versions, differential, newest
from rig.data.batches import Batch, Rec, batch

_PLENTY = 1 << 20
_SESSION_VERSIONS = [7, 11, 12, 13, 15, newest("fetch")]
#: With names, and with ids.
_TWO = [12, newest("fetch")]


def wanted(partition: int = 0, offset: int = 0, max_bytes: int = _PLENTY, **more: Any) -> Any:
    """What is asked of one partition."""
    fields = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    return fields | more


def of(peer: Peer, topic: str, *partitions: Any) -> dict[str, Any]:
    """What is asked of one topic, by name or id."""
    return {
        "topic": topic,
        "topic_id": peer.topic_fields(topic)["topic_id"],
        "partitions": list(partitions),
    }


def fetch(peer: Peer, *topics: Any, **fields: Any) -> Any:
    """Ask at once for what there is: the full fetch of a client without a session."""
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": _PLENTY, "session_epoch": -1}
    return peer.ask(topics=list(topics), **limits | fields)


@differential("fetch")
def test_offsets(peer: Peer) -> None:
    """Before, within, at the end of and after the log; in the middle of a batch."""
    topic = peer.topic()
    peer.produce(topic, b"a", b"b", b"c", timestamp=NOW)
    peer.produce(topic, b"d", b"e", timestamp=NOW)
    for offset in (0, 1, 2, 3, 4, 5, 6, 99, -1, -2, 2**63 - 1):
        fetch(peer, of(peer, topic, wanted(offset=offset)))


@differential("fetch")
def test_empty_log(peer: Peer) -> None:
    topic = peer.topic()
    for offset in (0, 1, -1):
        fetch(peer, of(peer, topic, wanted(offset=offset)))


@differential("fetch")
def test_unknown_topics_and_partitions(peer: Peer) -> None:
    topic = peer.topic()
    peer.produce(topic, b"a", timestamp=NOW)
    unknown = peer.unique("unknown")
    peer.call(uuid.UUID(int=99), "an unknown id")
    missing = {"topic": unknown, "topic_id": uuid.UUID(int=99), "partitions": [wanted()]}
    fetch(peer, missing)
    fetch(peer, of(peer, topic, wanted(1), wanted(-1)))
    fetch(peer, of(peer, topic, wanted()), missing)
    fetch(peer, {"topic": "", "topic_id": None, "partitions": [wanted()]})


@differential("fetch")
def test_nothing_asked(peer: Peer) -> None:
    topic = peer.topic()
    fetch(peer)
    fetch(peer, of(peer, topic))


@differential("fetch", versions=[4, *_TWO])
def test_the_same_partition_twice(peer: Peer) -> None:
    topic = peer.topic()
    peer.produce(topic, b"a", timestamp=NOW)
    peer.produce(topic, b"b", timestamp=NOW)
    fetch(peer, of(peer, topic, wanted(offset=0), wanted(offset=1)))
    fetch(peer, of(peer, topic, wanted(offset=1)), of(peer, topic, wanted(offset=0)))


@differential("fetch")
def test_size_limits(peer: Peer) -> None:
    """The first batch comes whole whatever the limits; later ones are cut (KIP-74)."""
    topic = peer.topic(partitions=2)
    data = batch(b"x" * 100, timestamp=NOW)
    for partition in (0, 0, 0, 1, 1):
        peer.produce_encoded(topic, data, partition)
    size = len(data)
    for limit in (0, 1, size - 1, size, size + 1, 2 * size, 2 * size + 70, 3 * size, -1):
        peer.note("a negative limit" if limit < 0 else f"limit {limit}")
        fetch(peer, of(peer, topic, wanted(0, max_bytes=limit)))
        fetch(peer, of(peer, topic, wanted(0), wanted(1)), max_bytes=limit)
        fetch(peer, of(peer, topic, wanted(0, max_bytes=limit), wanted(1, max_bytes=limit)))
        fetch(peer, of(peer, topic, wanted(1, max_bytes=limit), wanted(0)), max_bytes=size)


@differential("fetch")
def test_size_limits_when_the_first_partition_is_empty(peer: Peer) -> None:
    topic = peer.topic(partitions=3)
    for partition in (1, 2):
        peer.produce(topic, b"x" * 100, partition=partition, timestamp=NOW)
    for limit in (0, 1, 200):
        fetch(peer, of(peer, topic, wanted(0), wanted(1), wanted(2)), max_bytes=limit)
        fetch(peer, of(peer, topic, wanted(0, 7), wanted(2), wanted(1)), max_bytes=limit)


@differential("fetch", versions=[4, 11, *_TWO])
def test_isolation_levels(peer: Peer) -> None:
    topic = peer.topic()
    peer.produce(topic, b"a", timestamp=NOW)
    for level in (0, 1, 2, -1):
        peer.note(f"level {level}" if level in (0, 1) else "an isolation level that does not exist")
        fetch(peer, of(peer, topic, wanted(), wanted()), isolation_level=level)
        fetch(peer, of(peer, topic, wanted(offset=1)), isolation_level=level)


@differential("fetch", versions=range(9, newest("fetch") + 1))
def test_leader_epochs(peer: Peer) -> None:
    topic = peer.topic()
    peer.produce(topic, b"a", timestamp=NOW)
    for epoch in (-2, -1, 0, 1, 99):
        fetch(peer, of(peer, topic, wanted(current_leader_epoch=epoch)))


@differential("fetch", versions=range(12, newest("fetch") + 1))
def test_last_fetched_epoch(peer: Peer) -> None:
    """KIP-595: how a follower learns that its log has gone another way."""
    topic = peer.topic()
    peer.produce(topic, b"a", b"b", timestamp=NOW)
    for epoch in (-1, 0, 1):
        for offset in (0, 2, 3):
            fetch(peer, of(peer, topic, wanted(offset=offset, last_fetched_epoch=epoch)))


@differential("fetch")
def test_a_replica_that_is_none(peer: Peer) -> None:
    topic = peer.topic()
    peer.produce(topic, b"a", timestamp=NOW)
    for replica in (-2, 1, 7):
        peer.note("a follower" if replica >= 0 else "a debugger")
        state = {"replica_id": replica, "replica_epoch": -1}
        fetch(peer, of(peer, topic, wanted()), replica_id=replica, replica_state=state)


@differential("fetch", versions=range(12, newest("fetch") + 1))
def test_cluster_id(peer: Peer) -> None:
    topic = peer.topic()
    fetch(peer, of(peer, topic, wanted()), cluster_id="another")


@differential("fetch", versions=[4, *_TWO])
def test_codecs(peer: Peer) -> None:
    topic = peer.topic()
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        peer.produce(topic, b"a" * 50, b"b" * 50, timestamp=NOW, codec=codec)
    for offset in range(8):
        fetch(peer, of(peer, topic, wanted(offset=offset)))


@differential("fetch", versions=[4, 9, 10])
def test_zstd_and_old_clients(peer: Peer) -> None:
    """KIP-110: a client of a version before 10 may not know the codec."""
    topic = peer.topic(configs={"compression.type": "zstd"})
    peer.produce(topic, b"a", timestamp=NOW)
    fetch(peer, of(peer, topic, wanted()))


@differential("fetch", versions=[4, *_TWO])
def test_after_delete_records(peer: Peer) -> None:
    topic = peer.topic()
    for value in (b"a", b"b", b"c"):
        peer.produce(topic, value, timestamp=NOW)
    partition = {"partition_index": 0, "offset": 2}
    topics = [{"name": topic, "partitions": [partition]}]
    peer.ask("delete_records", 2, topics=topics, timeout=10_000)
    for offset in (0, 1, 2, 3):
        fetch(peer, of(peer, topic, wanted(offset=offset, log_start_offset=offset)))


@differential("fetch", versions=[4, *_TWO])
def test_control_and_empty_values(peer: Peer) -> None:
    topic = peer.topic()
    records = (Rec(None, b"k"), Rec(b"", b""), Rec(b"v", None, (("h", None), ("h", b"1"))))
    peer.produce_encoded(topic, Batch(records, timestamp=NOW).encode())
    fetch(peer, of(peer, topic, wanted()))


@differential("fetch", versions=[4, *_TWO])
def test_waiting(peer: Peer) -> None:
    """The answer comes when enough is there, or empty when the time is over."""
    topic = peer.topic()
    fetch(peer, of(peer, topic, wanted()), max_wait=50, min_bytes=1)
    waiting = peer.connection("waiting")
    limits = {"max_wait": 10_000, "min_bytes": 1, "max_bytes": _PLENTY, "session_epoch": -1}
    waiting.send(topics=[of(peer, topic, wanted())], **limits)
    peer.produce(topic, b"a", timestamp=NOW)
    waiting.receive()
    fetch(peer, of(peer, topic, wanted(offset=5)), max_wait=10_000, min_bytes=1)
    unknown = {"topic": "unknown", "topic_id": uuid.UUID(int=98), "partitions": [wanted()]}
    fetch(peer, unknown, max_wait=10_000, min_bytes=1)


@differential("fetch", versions=_TWO)
def test_rack(peer: Peer) -> None:
    topic = peer.topic()
    peer.produce(topic, b"a", timestamp=NOW)
    fetch(peer, of(peer, topic, wanted()), rack_id="somewhere")


@differential("fetch", versions=all_versions("fetch")[3:])
def test_session_life(peer: Peer) -> None:
    """Create, ask for nothing new, get only what changed, add, forget, close."""
    first, second = peer.topic("first", partitions=2), peer.topic("second")
    peer.produce(first, b"a", timestamp=NOW)
    made = fetch(
        peer, of(peer, first, wanted(0), wanted(1)), of(peer, second, wanted()), session_epoch=0
    )
    session = made.session_id
    fetch(peer, session_id=session, session_epoch=1)
    fetch(peer, of(peer, first, wanted(0, 1)), session_id=session, session_epoch=2)
    peer.produce(second, b"b", timestamp=NOW)
    fetch(peer, session_id=session, session_epoch=3)
    fetch(peer, session_id=session, session_epoch=4)
    fetch(peer, of(peer, second, wanted(0, 1)), session_id=session, session_epoch=5)
    forgotten = {"topic": second, "topic_id": peer.topic_id(second), "partitions": [0]}
    fetch(peer, session_id=session, session_epoch=6, forgotten_topics_data=[forgotten])
    peer.produce(second, b"c", timestamp=NOW)
    fetch(peer, session_id=session, session_epoch=7)
    fetch(peer, of(peer, second, wanted(0, 1)), session_id=session, session_epoch=8)
    fetch(peer, of(peer, second, wanted(0, 2)), session_id=session, session_epoch=-1)
    fetch(peer, session_id=session, session_epoch=9)


@differential("fetch", versions=_SESSION_VERSIONS)
def test_session_errors(peer: Peer) -> None:
    topic = peer.topic()
    fetch(peer, of(peer, topic, wanted()), session_id=peer.keep(123_456), session_epoch=1)
    fetch(peer, of(peer, topic, wanted()), session_id=123_456, session_epoch=0)
    fetch(peer, of(peer, topic, wanted()), session_id=123_456, session_epoch=-1)
    fetch(peer, of(peer, topic, wanted()), session_id=0, session_epoch=1)
    made = fetch(peer, of(peer, topic, wanted()), session_epoch=0)
    for epoch in (2, 0, 1, -2):
        fetch(peer, session_id=made.session_id, session_epoch=epoch)


@differential("fetch", versions=_SESSION_VERSIONS)
def test_session_that_asks_for_nothing(peer: Peer) -> None:
    fetch(peer, session_epoch=0)
    topic = peer.topic()
    made = fetch(peer, of(peer, topic, wanted()), session_epoch=0)
    forgotten = {"topic": topic, "topic_id": peer.topic_id(topic), "partitions": [0]}
    fetch(peer, session_id=made.session_id, session_epoch=1, forgotten_topics_data=[forgotten])
    fetch(peer, session_id=made.session_id, session_epoch=2)


@differential("fetch", versions=_SESSION_VERSIONS)
def test_session_with_errors_inside(peer: Peer) -> None:
    """Unknown partitions and offsets out of range are told again and again."""
    topic = peer.topic()
    unknown = {"topic": "unknown", "topic_id": uuid.UUID(int=97), "partitions": [wanted()]}
    peer.call(uuid.UUID(int=97), "an unknown id")
    asked = of(peer, topic, wanted(0, 5), wanted(1))
    made = fetch(peer, asked, unknown, session_epoch=0)
    for epoch in (1, 2):
        fetch(peer, session_id=made.session_id, session_epoch=epoch)


@differential("fetch", versions=_SESSION_VERSIONS)
def test_session_tells_new_start_offsets(peer: Peer) -> None:
    """A high watermark or log start offset that moves is a change worth telling."""
    topic = peer.topic()
    for value in (b"a", b"b", b"c"):
        peer.produce(topic, value, timestamp=NOW)
    made = fetch(peer, of(peer, topic, wanted(offset=3)), session_epoch=0)
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 2}]}]
    peer.ask("delete_records", 2, topics=topics, timeout=10_000)
    for epoch in (1, 2):
        fetch(peer, session_id=made.session_id, session_epoch=epoch)


@differential("fetch", versions=_SESSION_VERSIONS)
def test_session_with_a_limit_goes_round(peer: Peer) -> None:
    """Partitions that got data go to the end, so that none of them starves."""
    topic = peer.topic(partitions=3)
    for partition in (0, 1, 2):
        for _ in range(3):
            peer.produce(topic, b"x" * 100, partition=partition, timestamp=NOW)
    partitions = [wanted(index, max_bytes=200) for index in range(3)]
    made = fetch(peer, of(peer, topic, *partitions), session_epoch=0, max_bytes=1)
    for epoch in range(1, 6):
        fetch(peer, session_id=made.session_id, session_epoch=epoch, max_bytes=1)


@differential("fetch", versions=_SESSION_VERSIONS)
def test_session_of_a_deleted_topic(peer: Peer) -> None:
    topic = peer.topic()
    peer.produce(topic, b"a", timestamp=NOW)
    made = fetch(peer, of(peer, topic, wanted()), session_epoch=0)
    topics = [{"name": topic, "topic_id": None}]
    peer.ask("delete_topics", 6, topics=topics, timeout=10_000)
    peer.await_no_topic(topic)
    peer.note("the topic is gone")
    for epoch in (1, 2):
        fetch(peer, session_id=made.session_id, session_epoch=epoch)


@differential("fetch", versions=[12, 13])
def test_session_changes_between_names_and_ids(peer: Peer) -> None:
    """KIP-516: a session that began with names cannot continue with ids, nor the other way."""
    topic = peer.topic()
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": _PLENTY}
    made = fetch(peer, of(peer, topic, wanted()), session_epoch=0)
    other = 25 - peer.version
    asked = [of(peer, topic, wanted())]
    for topics in (asked, []):
        peer.ask(
            "fetch", other, session_id=made.session_id, session_epoch=1, topics=topics, **limits
        )
