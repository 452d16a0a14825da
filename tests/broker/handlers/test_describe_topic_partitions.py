"""DescribeTopicPartitions: pages and cursors as Apache Kafka 4.3 answered them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.conftest import Ask
from drumlin.broker.handlers import describe_topic_partitions
from rig.time.stepped import Stepped

Create = Callable[..., str]
NOT_ASKED = -(2**31)
OPERATIONS = 3576


def page(
    ask: Ask, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[Any], tuple[str, int] | None]:
    start = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    answer = ask(
        "describe_topic_partitions",
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=start,
    )
    topics = [
        (each["name"], each["error_code"], [part["partition_index"] for part in each["partitions"]])
        for each in answer["topics"]
    ]
    after = answer["next_cursor"]
    return topics, None if after is None else (after["topic_name"], after["partition_index"])


@pytest.fixture
def topics(create: Create) -> tuple[str, str]:
    """`a` has three partitions, `b` one."""
    return create("a", partitions=3), create("b", partitions=1)


def test_sorted_and_once_each(ask: Ask, topics: tuple[str, str]) -> None:
    a, b = topics
    assert page(ask, [b, "0-nowhere", a, b, "0 bad"]) == (
        [
            ("0 bad", "invalid_topic_exception", []),
            ("0-nowhere", "unknown_topic_or_partition", []),
            (a, "none", [0, 1, 2]),
            (b, "none", [0]),
        ],
        None,
    )


def test_pages(ask: Ask, topics: tuple[str, str]) -> None:
    a, b = topics
    assert page(ask, [a, b], 2) == ([(a, "none", [0, 1])], (a, 2))
    assert page(ask, [a, b], 3, (a, 2)) == ([(a, "none", [2]), (b, "none", [0])], None)
    assert page(ask, [a, b], 3) == ([(a, "none", [0, 1, 2])], (b, 0))
    assert page(ask, [a, b], 4) == ([(a, "none", [0, 1, 2]), (b, "none", [0])], None)
    assert page(ask, [a, b], 3, (b, 0)) == ([(b, "none", [0])], None)
    assert page(ask, [b], 1) == ([(b, "none", [0])], None)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_has_at_least_one_partition(ask: Ask, topics: tuple[str, str], limit: int) -> None:
    a, _ = topics
    assert page(ask, [a], limit) == ([(a, "none", [0])], (a, 1))


def test_what_does_not_exist_takes_no_room(ask: Ask, topics: tuple[str, str]) -> None:
    a, _ = topics
    assert page(ask, ["0-nowhere", a], 2) == (
        [("0-nowhere", "unknown_topic_or_partition", []), (a, "none", [0, 1])],
        (a, 2),
    )


def test_a_cursor_behind_the_last_partition(ask: Ask, topics: tuple[str, str]) -> None:
    a, b = topics
    assert page(ask, [a, b], 3, (a, 200)) == ([(a, "none", []), (b, "none", [0])], None)


def test_all_topics_from_a_cursor(ask: Ask, topics: tuple[str, str]) -> None:
    a, _ = topics
    found, cursor = page(ask, [], 2, (a, 1))
    assert found == [(a, "none", [1, 2])]
    assert cursor is not None


@pytest.mark.parametrize("cursor", [("somewhere else", 0), ("a", -2)])
def test_an_impossible_cursor(ask: Ask, topics: tuple[str, str], cursor: tuple[str, int]) -> None:
    a, b = topics
    cursor = (a if cursor[0] == "a" else cursor[0], cursor[1])
    assert page(ask, [a, b], 3, cursor) == (
        [(a, "invalid_request", []), (b, "invalid_request", [])],
        None,
    )


def test_an_empty_name_fails_all(ask: Ask, topics: tuple[str, str]) -> None:
    a, _ = topics
    codes = [each[1] for each in page(ask, ["", a])[0]]
    assert codes == ["unknown_server_error", "unknown_server_error"]


def test_the_fields_of_a_partition(ask: Ask, topics: tuple[str, str]) -> None:
    _, b = topics
    answer = ask(
        "describe_topic_partitions",
        0,
        topics=[{"name": b}],
        response_partition_limit=5,
        cursor=None,
    )
    (topic,) = answer["topics"]
    assert topic["topic_authorized_operations"] == OPERATIONS
    assert topic["topic_id"] is not None
    assert topic["partitions"] == [
        {
            "error_code": "none",
            "partition_index": 0,
            "leader_id": 1,
            "leader_epoch": 0,
            "replica_nodes": [1],
            "isr_nodes": [1],
            "eligible_leader_replicas": [],
            "last_known_elr": [],
            "offline_replicas": [],
        }
    ]


def test_very_many_names_are_sorted_in_steps() -> None:
    names = [f"t{each}" for each in range(10_000)]
    work = Stepped(describe_topic_partitions._sorted(list(reversed(names))))
    steps = 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            assert list(done.value) == sorted(names)
            break
        steps += 1
    assert steps == 10
