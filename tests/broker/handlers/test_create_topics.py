"""CreateTopics: codes are those of Apache Kafka 4.3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.conftest import Ask

TopicName = Callable[[str], str]


def wish(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    assignments: dict[int, list[int]] | list[tuple[int, list[int]]] | None = None,
    configs: list[tuple[str, str | None]] | None = None,
) -> dict[str, Any]:
    pairs = assignments.items() if isinstance(assignments, dict) else assignments or []
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [{"partition_index": index, "broker_ids": ids} for index, ids in pairs],
        "configs": [{"name": key, "value": value} for key, value in configs or []],
    }


def create_one(ask: Ask, topic: dict[str, Any], version: int = 7, **fields: Any) -> Any:
    fields.setdefault("timeout", 10_000)
    (result,) = ask("create_topics", version, topics=[topic], **fields)["topics"]
    return result


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (
            {"partitions": 0},
            "invalid_partitions",
            "the number of partitions must be at least 1, or -1 for the default",
        ),
        (
            {"partitions": -2},
            "invalid_partitions",
            "the number of partitions must be at least 1, or -1 for the default",
        ),
        (
            {"replicas": 0},
            "invalid_replication_factor",
            "the replication factor must be at least 1, or -1 for the default",
        ),
        (
            {"replicas": -2},
            "invalid_replication_factor",
            "the replication factor must be at least 1, or -1 for the default",
        ),
        (
            {"replicas": 3},
            "invalid_replication_factor",
            "3 replicas need as many brokers; there are 1",
        ),
        (
            {"partitions": 10_001},
            "policy_violation",
            "a request can create 10000 partitions at most",
        ),
        (
            {"partitions": 2, "replicas": -1, "assignments": {0: [1], 1: [1]}},
            "invalid_request",
            "where replicas are assigned, the number of partitions must be -1",
        ),
        (
            {"partitions": -1, "assignments": {0: [1]}},
            "invalid_request",
            "where replicas are assigned, the replication factor must be -1",
        ),
        (
            {"partitions": -1, "replicas": -1, "assignments": {0: [1], 2: [1]}},
            "invalid_replica_assignment",
            "the assigned partitions must be numbered from 0 without a gap",
        ),
        (
            {"partitions": -1, "replicas": -1, "assignments": {-1: [1]}},
            "invalid_replica_assignment",
            "the assigned partitions must be numbered from 0 without a gap",
        ),
        (
            {"partitions": -1, "replicas": -1, "assignments": [(0, [1]), (0, [1])]},
            "invalid_replica_assignment",
            "partition 0 is assigned replicas more than once",
        ),
        (
            {"partitions": -1, "replicas": -1, "assignments": {0: []}},
            "invalid_replica_assignment",
            "a partition is assigned no replicas",
        ),
        (
            {"partitions": -1, "replicas": -1, "assignments": {0: [7]}},
            "invalid_replica_assignment",
            "there is no broker 7",
        ),
        (
            {"partitions": -1, "replicas": -1, "assignments": {0: [-1]}},
            "invalid_replica_assignment",
            "there is no broker -1",
        ),
        (
            {"partitions": -1, "replicas": -1, "assignments": {0: [1, 1]}},
            "invalid_replica_assignment",
            "broker 1 is assigned more than one replica of a partition",
        ),
        (
            {"configs": [("segment.bytes", "x")]},
            "invalid_config",
            'segment.bytes = "x": must be a whole number (32 bits) of at least 1048576',
        ),
        (
            {"configs": [("segment.bytes", "100")]},
            "invalid_config",
            'segment.bytes = "100": must be a whole number (32 bits) of at least 1048576',
        ),
        ({"configs": [("foo", "1")]}, "invalid_config", "topics have no key foo"),
        ({"configs": [("", "1")]}, "invalid_config", "topics have no key "),
        (
            {"configs": [("message.format.version", "2.0")]},
            "invalid_config",
            (
                "topics have no key message.format.version; Kafka has removed it; "
                "records are always kept in format 2"
            ),
        ),
        (
            {"configs": [("a", None), ("segment.bytes", None)]},
            "invalid_config",
            "no value is given for a, segment.bytes",
        ),
        (
            {"configs": [("compression.type", "")]},
            "invalid_config",
            'compression.type = "": must be one of uncompressed, zstd, lz4, snappy, gzip, producer',
        ),
        (
            {"configs": [("remote.storage.enable", "true")]},
            "invalid_config",
            "remote.storage.enable: this broker has no tiered storage",
        ),
        (
            {"configs": [("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "3")]},
            "invalid_config",
            "min.compaction.lag.ms (5) is above max.compaction.lag.ms (3)",
        ),
        (
            {"partitions": 0, "configs": [("foo", "1")]},
            "invalid_config",
            "topics have no key foo",
        ),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_refused(
    ask: Ask,
    topic_name: TopicName,
    wanted: dict[str, Any],
    code: str,
    message: str,
    validate_only: bool,
) -> None:
    result = create_one(ask, wish(topic_name("t"), **wanted), validate_only=validate_only)
    assert (result["error_code"], result["error_message"]) == (code, message)
    assert (result["num_partitions"], result["replication_factor"]) == (-1, -1)
    assert result["configs"] == []
    assert result["topic_id"] is None


@pytest.mark.parametrize(
    ("wanted", "partition_count"),
    [
        ({"partitions": 3}, 3),
        ({"partitions": -1, "replicas": -1}, 1),
        ({"partitions": -1, "replicas": -1, "assignments": {1: [1], 0: [1]}}, 2),
        ({"configs": [("cleanup.policy", "")]}, 1),
        ({"configs": [("min.insync.replicas", "3")]}, 1),
        ({"configs": [("retention.ms", "5"), ("retention.ms", "6")]}, 1),
        ({"configs": [("internal.segment.bytes", "600")]}, 1),
    ],
)
def test_created(
    ask: Ask, topic_name: TopicName, wanted: dict[str, Any], partition_count: int
) -> None:
    name = topic_name("t")
    result = create_one(ask, wish(name, **wanted))
    assert (result["error_code"], result["error_message"]) == ("none", None)
    assert (result["num_partitions"], result["replication_factor"]) == (partition_count, 1)
    (topic,) = ask("metadata", 13, topics=[{"name": name, "topic_id": None}])["topics"]
    assert topic["topic_id"] == result["topic_id"]
    assert [each["partition_index"] for each in topic["partitions"]] == list(range(partition_count))
    assert {each["leader_id"] for each in topic["partitions"]} == {1}


def test_the_configuration_is_echoed_as_it_was_given(ask: Ask, topic_name: TopicName) -> None:
    topic = wish(
        topic_name("t"), configs=[("retention.ms", " 77 "), ("internal.segment.bytes", "600")]
    )
    configs = create_one(ask, topic, version=5, validate_only=True)["configs"]
    names = [each["name"] for each in configs]
    assert len(names) == 34
    assert names == sorted(names)
    by_name = {each["name"]: each for each in configs}
    assert by_name["retention.ms"] == {
        "name": "retention.ms",
        "value": " 77 ",
        "read_only": False,
        "config_source": 1,
        "is_sensitive": False,
    }
    assert by_name["min.cleanable.dirty.ratio"]["value"] == "0.5"
    assert by_name["leader.replication.throttled.replicas"]["value"] == ""
    assert by_name["segment.ms"]["config_source"] == 5


def test_what_exists_or_collides(ask: Ask, topic_name: TopicName) -> None:
    name = topic_name("with.dot")
    assert create_one(ask, wish(name))["error_code"] == "none"
    for validate_only in (False, True):
        result = create_one(ask, wish(name), validate_only=validate_only)
        assert result["error_code"] == "topic_already_exists"
        assert result["error_message"] == f"there is a topic {name} already"
    other = name.replace(".", "_")
    result = create_one(ask, wish(other))
    assert result["error_code"] == "invalid_topic_exception"
    assert (
        result["error_message"]
        == f"{other} and the existing topic {name} would be the same in metrics"
    )


def test_names_within_one_request_may_collide(ask: Ask, topic_name: TopicName) -> None:
    topics = [wish(topic_name("a.b_c")), wish(topic_name("a_b.c"))]
    results = ask("create_topics", 7, topics=topics, timeout=10_000)["topics"]
    assert [each["error_code"] for each in results] == ["none", "none"]


def test_a_name_given_twice(ask: Ask, topic_name: TopicName) -> None:
    twice, once = topic_name("twice"), topic_name("once")
    topics = [wish(twice), wish(twice), wish(once)]
    results = ask("create_topics", 7, topics=topics, timeout=10_000)["topics"]
    assert [(each["name"], each["error_code"]) for each in results] == [
        (once, "none"),
        (twice, "invalid_request"),
    ]
    assert results[1]["error_message"] == "named more than once in one request"
    assert create_one(ask, wish(twice))["error_code"] == "none"


@pytest.mark.parametrize("timeout_ms", [0, -5])
def test_no_time_at_all(ask: Ask, topic_name: TopicName, timeout_ms: int) -> None:
    name = topic_name("t")
    result = create_one(ask, wish(name), timeout=timeout_ms)
    assert (result["error_code"], result["error_message"]) == ("request_timed_out", None)
    assert create_one(ask, wish(name))["error_code"] == "none"


def test_the_metadata_log_of_kraft_is_nobodys_topic(ask: Ask) -> None:
    result = create_one(ask, wish("__cluster_metadata"), validate_only=True)
    assert result["error_code"] == "invalid_request"
    assert result["error_message"] == "__cluster_metadata cannot be created by a client"


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version(ask: Ask, topic_name: TopicName, version: int) -> None:
    result = create_one(ask, wish(topic_name("t"), partitions=2), version=version)
    assert result["error_code"] == "none"
    assert ("configs" in result) == (version >= 5)
    assert ("topic_id" in result) == (version >= 7)


def test_no_topics(ask: Ask) -> None:
    assert ask("create_topics", 7, topics=[], timeout=0) == {"throttle_time": 0, "topics": []}
