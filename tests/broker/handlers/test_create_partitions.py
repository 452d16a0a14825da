"""CreatePartitions: codes are those of Apache Kafka 4.3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.conftest import Ask

Create = Callable[..., str]


def grow(
    ask: Ask, name: str, count: int, assignments: list[list[int]] | None = None, **fields: Any
) -> tuple[str, str | None]:
    topic: dict[str, Any] = {"name": name, "count": count, "assignments": None}
    if assignments is not None:
        topic["assignments"] = [{"broker_ids": ids} for ids in assignments]
    request = {"timeout": 10_000, "validate_only": False, **fields}
    (result,) = ask("create_partitions", 3, topics=[topic], **request)["results"]
    return result["error_code"], result["error_message"]


def partition_count(ask: Ask, name: str) -> int:
    (topic,) = ask("metadata", 13, topics=[{"name": name, "topic_id": None}])["topics"]
    return len(topic["partitions"])


def test_a_topic_grows(ask: Ask, create: Create) -> None:
    name = create()
    assert grow(ask, name, 4, validate_only=True) == ("none", None)
    assert partition_count(ask, name) == 1
    assert grow(ask, name, 3) == ("none", None)
    assert grow(ask, name, 5, [[1], [1]]) == ("none", None)
    assert partition_count(ask, name) == 5


@pytest.mark.parametrize(
    ("count", "assignments", "code", "message"),
    [
        (3, None, "invalid_partitions", "NAME has 3 partitions already"),
        *(
            (
                count,
                None,
                "invalid_partitions",
                f"NAME has 3 partitions, and cannot go back to {count}",
            )
            for count in (2, 0, -1)
        ),
        (
            4,
            [[1], [1]],
            "invalid_replica_assignment",
            "1 new partitions, but replicas are assigned for 2",
        ),
        (
            5,
            [],
            "invalid_replica_assignment",
            "2 new partitions, but replicas are assigned for 0",
        ),
        (
            4,
            [[7]],
            "invalid_replica_assignment",
            "there is no broker 7",
        ),
        (
            4,
            [[]],
            "invalid_replica_assignment",
            "a partition is assigned no replicas",
        ),
        (
            4,
            [[1, 1]],
            "invalid_replica_assignment",
            "broker 1 is assigned more than one replica of a partition",
        ),
    ],
)
def test_refused(
    ask: Ask,
    create: Create,
    count: int,
    assignments: list[list[int]] | None,
    code: str,
    message: str,
) -> None:
    name = create(partitions=3)
    assert grow(ask, name, count, assignments) == (code, message.replace("NAME", name))
    assert partition_count(ask, name) == 3


@pytest.mark.parametrize("name", ["nowhere", "", "a b", "__cluster_metadata"])
def test_unknown_topics(ask: Ask, name: str) -> None:
    assert grow(ask, name, 3) == ("unknown_topic_or_partition", None)


def test_a_hostile_number_is_refused(ask: Ask, create: Create) -> None:
    """Apache Kafka takes it and is busy for a long time: this is meant to differ."""
    code, _ = grow(ask, create(), 2**31 - 1)
    assert code == "policy_violation"


def test_many_topics_cannot_ask_for_more_than_one_can(ask: Ask, create: Create) -> None:
    """As Apache Kafka does, which writes no more than 10,000 records for a request."""
    names = [create(each) for each in "abc"]
    topics = [{"name": each, "count": 5_000, "assignments": None} for each in names]
    answer = ask("create_partitions", 3, topics=topics, timeout=10_000, validate_only=False)
    message = "a request can create 10000 partitions at most"
    assert [tuple(each.values()) for each in answer["results"]] == [
        (each, "policy_violation", message) for each in names
    ]
    assert [partition_count(ask, each) for each in names] == [1, 1, 1]


def test_what_is_refused_for_itself_is_none_of_those(ask: Ask, create: Create) -> None:
    wide, odd = create("wide"), create("odd")
    topics = [
        {"name": wide, "count": 2, "assignments": None},
        {"name": odd, "count": 2**31 - 1, "assignments": [{"broker_ids": [1]}]},
        {"name": "nowhere", "count": 2**31 - 1, "assignments": None},
    ]
    answer = ask("create_partitions", 3, topics=topics, timeout=10_000, validate_only=False)
    codes = {each["name"]: each["error_code"] for each in answer["results"]}
    assert codes.pop("nowhere") == "unknown_topic_or_partition"
    assert codes == {wide: "none", odd: "invalid_replica_assignment"}


def test_a_name_given_twice(ask: Ask, create: Create) -> None:
    twice, once = create("twice"), create("once")
    topics = [{"name": each, "count": 2, "assignments": None} for each in (twice, twice, once)]
    answer = ask("create_partitions", 3, topics=topics, timeout=10_000, validate_only=False)
    assert [tuple(each.values()) for each in answer["results"]] == [
        (twice, "invalid_request", "named more than once in one request"),
        (once, "none", None),
    ]


def test_no_time_at_all(ask: Ask, create: Create) -> None:
    assert grow(ask, create(), 2, timeout=0) == ("request_timed_out", None)


@pytest.mark.parametrize("version", range(4))
def test_every_version(ask: Ask, create: Create, version: int) -> None:
    name = create()
    topics = [{"name": name, "count": 2, "assignments": None}]
    answer = ask("create_partitions", version, topics=topics, timeout=10_000, validate_only=False)
    assert [each["error_code"] for each in answer["results"]] == ["none"]
    assert partition_count(ask, name) == 2
