"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords, and what describes topics."""

from __future__ import annotations

import uuid
from typing import Any

from differential.now import NOW
from differential.peer import Peer
from differential.scripts import differential, newest


def create(peer: Peer, *topics: dict[str, Any], **fields: Any) -> None:
    """Compare the answer to a creation; one partition and replica unless said otherwise."""
    plain = {"num_partitions": 1, "replication_factor": 1}
    peer.ask(topics=[plain | each for each in topics], **{"timeout": 10_000} | fields)


def _configs(**settings: str | None) -> list[dict[str, Any]]:
    return [{"name": key.replace("_", "."), "value": value} for key, value in settings.items()]


@differential("create_topics")
def test_create(peer: Peer) -> None:
    create(peer, {"name": peer.unique("a")}, {"name": peer.unique("b"), "num_partitions": 3})
    create(peer, {"name": peer.unique("a")})
    create(peer)


@differential("create_topics")
def test_validate_only(peer: Peer) -> None:
    for _ in range(2):
        create(peer, {"name": peer.unique("a")}, validate_only=True)
    create(peer, {"name": peer.unique("a"), "num_partitions": -5}, validate_only=True)


@differential("create_topics")
def test_create_invalid_names(peer: Peer) -> None:
    for name in ("", ".", "..", "a b", "a/b", "ü", "x" * 250, "a:b"):
        create(peer, {"name": name})
    create(peer, {"name": peer.unique("x.y")})
    create(peer, {"name": peer.unique("x_y")})
    peer.await_coordinator("anyone")  # since then there is the topic of groups
    create(peer, {"name": "__consumer_offsets"}, validate_only=True)


@differential("create_topics")
def test_create_the_same_name_twice(peer: Peer) -> None:
    name = peer.unique("twice")
    create(peer, {"name": name}, {"name": name, "num_partitions": 2})
    create(peer, {"name": name}, {"name": name}, {"name": peer.unique("once")})


@differential("create_topics")
def test_partition_counts(peer: Peer) -> None:
    for number, count in enumerate((0, -1, -2, 2**31 - 1)):
        create(peer, {"name": peer.unique(str(number)), "num_partitions": count})
    for number, factor in enumerate((0, -1, -2, 2, 32767)):
        create(peer, {"name": peer.unique(f"r{number}"), "replication_factor": factor})
    create(peer, {"name": peer.unique("n"), "num_partitions": -1, "replication_factor": -1})


@differential("create_topics")
def test_assignments(peer: Peer) -> None:
    automatic = {"num_partitions": -1, "replication_factor": -1}
    assignments: dict[str, list[tuple[int, list[int]]]] = {
        "one": [(0, [1])],
        "two": [(0, [1]), (1, [1])],
        "gap": [(0, [1]), (2, [1])],
        "not from 0": [(1, [1])],
        "negative": [(-1, [1])],
        "twice": [(0, [1]), (0, [1])],
        "no broker": [(0, [])],
        "unknown broker": [(0, [9])],
        "broker twice": [(0, [1, 1])],
        "negative broker": [(0, [-1])],
    }
    for number, (what, pairs) in enumerate(assignments.items()):
        peer.note(what)
        entries = [{"partition_index": index, "broker_ids": ids} for index, ids in pairs]
        create(peer, {"name": peer.unique(f"a{number}"), "assignments": entries} | automatic)
        create(peer, {"name": peer.unique(f"b{number}"), "assignments": entries})


@differential("create_topics")
def test_create_with_configs(peer: Peer) -> None:
    good = _configs(retention_ms="1000", cleanup_policy="compact")
    create(peer, {"name": peer.unique("good"), "configs": good})
    wrong: list[list[dict[str, Any]]] = [
        _configs(no_such_key="1"),
        _configs(retention_ms="soon"),
        _configs(retention_ms="-2"),
        _configs(retention_ms=None),
        _configs(retention_ms=""),
        _configs(cleanup_policy="burn"),
        _configs(cleanup_policy="compact,delete"),
        _configs(compression_type="brotli"),
        _configs(segment_bytes="13"),
        _configs(min_insync_replicas="0"),
        _configs(min_compaction_lag_ms="10", max_compaction_lag_ms="5"),
        _configs(message_timestamp_type="Never"),
        _configs(preallocate="maybe"),
        _configs(max_message_bytes="99999999999"),
        _configs(message_format_version="2.0"),
        [*_configs(retention_ms="1"), *_configs(retention_ms="2")],
        [{"name": "", "value": "1"}],
    ]
    for number, configs in enumerate(wrong):
        peer.note(str(configs))
        create(peer, {"name": peer.unique(f"c{number}"), "configs": configs})


@differential("create_topics")
def test_one_bad_topic_among_good_ones(peer: Peer) -> None:
    create(peer, {"name": peer.unique("good")}, {"name": "bad name"}, {"name": peer.unique("too")})


@differential("create_topics", versions=[2, newest("create_topics")])
def test_create_timeouts(peer: Peer) -> None:
    for timeout in (0, -1):
        peer.ask(
            topics=[{"name": peer.unique(f"t{timeout}"), "num_partitions": 1}], timeout=timeout
        )


def _delete(peer: Peer, *topics: dict[str, Any]) -> None:
    """From version 6 on with names and ids, before with names alone."""
    names = [each["name"] for each in topics if each.get("name") is not None]
    peer.ask(topics=list(topics), topic_names=names, timeout=10_000)


@differential("delete_topics")
def test_delete(peer: Peer) -> None:
    first, second = peer.topic("first"), peer.topic("second")
    _delete(peer, {"name": first}, {"name": second}, {"name": peer.unique("unknown")})
    peer.await_no_topic(first)
    _delete(peer, {"name": first})
    _delete(peer)


@differential("delete_topics")
def test_delete_odd_names(peer: Peer) -> None:
    for name in ("", ".", "a b", "x" * 250):
        _delete(peer, {"name": name})
    topic = peer.topic()
    _delete(peer, {"name": topic}, {"name": topic})
    _delete(peer, {"name": topic})


@differential("delete_topics", versions=[6])
def test_delete_by_id(peer: Peer) -> None:
    topic = peer.topic()
    unknown = peer.call(uuid.UUID(int=96), "an unknown id")
    _delete(peer, {"name": None, "topic_id": unknown})
    _delete(peer, {"name": topic, "topic_id": peer.topic_id(topic)})
    _delete(peer, {"name": None, "topic_id": None})
    by_id = {"name": None, "topic_id": peer.topic_id(topic)}
    _delete(peer, by_id, {"name": topic, "topic_id": None})
    _delete(peer, by_id, by_id)
    _delete(peer, by_id)


def _grow(peer: Peer, *topics: dict[str, Any], **fields: Any) -> None:
    entries = [{"assignments": None} | each for each in topics]
    peer.ask(topics=entries, **{"timeout": 10_000, "validate_only": False} | fields)


@differential("create_partitions")
def test_create_partitions(peer: Peer) -> None:
    topic = peer.topic(partitions=2)
    for count in (2, 1, 0, -1):
        _grow(peer, {"name": topic, "count": count})
    _grow(peer, {"name": topic, "count": 3}, validate_only=True)
    _grow(peer, {"name": topic, "count": 3})
    peer.await_topic(topic, partitions=3)
    _grow(peer, {"name": topic, "count": 3})
    _grow(peer, {"name": topic, "count": 4}, {"name": topic, "count": 5})
    _grow(peer, {"name": peer.unique("unknown"), "count": 4})
    _grow(peer, {"name": "", "count": 4})
    _grow(peer)


@differential("create_partitions")
def test_create_partitions_with_assignments(peer: Peer) -> None:
    topic = peer.topic()
    choices: list[list[list[int]]] = [
        [],
        [[1], [1]],
        [[9]],
        [[1, 1]],
        [[]],
        [[1, 9]],
        [[-1]],
        [[1]],
    ]
    for brokers in choices:
        peer.note(str(brokers))
        assignments = [{"broker_ids": each} for each in brokers]
        _grow(peer, {"name": topic, "count": 2, "assignments": assignments}, validate_only=True)
        _grow(peer, {"name": topic, "count": 2, "assignments": assignments})


def _delete_records(peer: Peer, topic: str, *pairs: tuple[int, int]) -> None:
    partitions = [{"partition_index": index, "offset": offset} for index, offset in pairs]
    peer.ask(topics=[{"name": topic, "partitions": partitions}], timeout=10_000)


@differential("delete_records")
def test_delete_records(peer: Peer) -> None:
    topic = peer.topic(partitions=2)
    for value in (b"a", b"b", b"c"):
        peer.produce(topic, value, value, timestamp=NOW)
    for offset in (0, 1, 3, 2, 7, -2, 5, -1, 6, -1, 2**63 - 1):
        _delete_records(peer, topic, (0, offset))
    _delete_records(peer, topic, (0, 0), (1, 0), (2, 0), (-1, 0))
    _delete_records(peer, peer.unique("unknown"), (0, 0))
    _delete_records(peer, "", (0, 0))
    _delete_records(peer, topic)
    peer.ask(topics=[], timeout=10_000)


@differential("delete_records")
def test_delete_records_of_a_compacted_topic(peer: Peer) -> None:
    for policy in ("compact", "compact,delete"):
        topic = peer.topic(policy.replace(",", "-"), configs={"cleanup.policy": policy})
        _delete_records(peer, topic, (0, 0))
        _delete_records(peer, topic, (0, -1))


@differential("delete_records", versions=[newest("delete_records")])
def test_delete_records_of_an_internal_topic(peer: Peer) -> None:
    peer.await_coordinator("any")
    _delete_records(peer, "__consumer_offsets", (0, 0))


@differential("describe_topic_partitions")
def test_describe_topic_partitions(peer: Peer) -> None:
    first, second = peer.topic("a", partitions=3), peer.topic("b", partitions=2)
    unknown = peer.unique("unknown")
    asked = [{"name": each} for each in (second, first, unknown)]
    peer.ask(topics=asked, response_partition_limit=2000, cursor=None)
    peer.ask(topics=[*asked, *asked], response_partition_limit=2000, cursor=None)
    for limit in (1, 2, 3, 4, 5, 6, 0, -1):
        peer.note(f"limit {limit}")
        peer.ask(topics=asked, response_partition_limit=limit, cursor=None)
    for topic, partition in ((first, 1), (first, 3), (second, 0), (unknown, 0), ("zzz", 0)):
        peer.note(f"cursor {topic} {partition}")
        cursor = {"topic_name": topic, "partition_index": partition}
        peer.ask(topics=asked, response_partition_limit=2, cursor=cursor)
    cursor = {"topic_name": first, "partition_index": -1}
    peer.ask(topics=asked, response_partition_limit=2, cursor=cursor)
    odd = [{"name": ""}, {"name": "a b"}, {"name": second}]
    peer.ask(topics=odd, response_partition_limit=9, cursor=None)
    for partition in (0, 2, -1):
        cursor = {"topic_name": second, "partition_index": partition}
        peer.ask(topics=odd, response_partition_limit=9, cursor=cursor)


@differential("describe_cluster")
def test_describe_cluster(peer: Peer) -> None:
    for operations in (False, True):
        for endpoint_type in (1, 2, 0, 3):
            peer.ask(include_cluster_authorized_operations=operations, endpoint_type=endpoint_type)
    peer.ask(endpoint_type=1, include_fenced_brokers=True)


@differential("describe_log_dirs")
def test_describe_log_dirs(peer: Peer) -> None:
    topic = peer.topic(partitions=2)
    peer.produce(topic, b"a", b"b", timestamp=NOW)
    peer.ask(topics=[{"topic": topic, "partitions": [0, 1, 2]}])
    peer.ask(topics=[{"topic": topic, "partitions": [1]}])
    peer.ask(topics=[{"topic": topic, "partitions": []}])
    peer.ask(topics=[{"topic": peer.unique("unknown"), "partitions": [0]}])
    peer.ask(topics=[])
