"""DeleteRecords and OffsetForLeaderEpoch: what Apache Kafka 4.3 answered to the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from broker.conftest import Ask
from rig.brokers.drumlin_server import DrumlinServer

Create = Callable[..., str]
Offsets = dict[str, list[tuple[int, int]]]


@pytest.fixture
def filled(create: Create, server: DrumlinServer) -> str:
    """A topic of three partitions, the first of which has ten records."""
    name = create(partitions=3)
    producer = Producer({"bootstrap.servers": server.address})
    for _ in range(10):
        producer.produce(name, b"value", partition=0)
    assert producer.flush(20) == 0
    return name


def delete(ask: Ask, *topics: tuple[str, list[tuple[int, int]]], version: int = 2) -> Any:
    answer = ask(
        "delete_records",
        version,
        topics=[
            {
                "name": name,
                "partitions": [
                    {"partition_index": index, "offset": offset} for index, offset in offsets
                ],
            }
            for name, offsets in topics
        ],
        timeout=3000,
    )
    return {
        (topic["name"], each["partition_index"]): (each["low_watermark"], each["error_code"])
        for topic in answer["topics"]
        for each in topic["partitions"]
    }


def test_the_log_start_moves_forward_only(ask: Ask, filled: str) -> None:
    for offset, low_watermark in [(3, 3), (1, 3), (0, 3), (-1, 10), (5, 10)]:
        assert delete(ask, (filled, [(0, offset)])) == {(filled, 0): (low_watermark, "none")}
    assert delete(ask, (filled, [(1, -1)])) == {(filled, 1): (0, "none")}


@pytest.mark.parametrize("offset", [11, -2, 2**63 - 1])
def test_offsets_that_are_not_there(ask: Ask, filled: str, offset: int) -> None:
    assert delete(ask, (filled, [(0, offset)])) == {(filled, 0): (-1, "offset_out_of_range")}


def test_partitions_that_are_not_there(ask: Ask, filled: str) -> None:
    unknown = (-1, "unknown_topic_or_partition")
    assert delete(ask, (filled, [(77, 0), (-1, 0)]), ("nowhere", [(0, 0)]), ("", [(0, 0)])) == {
        (filled, 77): unknown,
        (filled, -1): unknown,
        ("nowhere", 0): unknown,
        ("", 0): unknown,
    }


def test_topics_that_are_not_for_it(ask: Ask, create: Create) -> None:
    compacted, both = (
        create("c", cleanup_policy="compact"),
        create("b", cleanup_policy="compact,delete"),
    )
    assert delete(
        ask, (compacted, [(0, -1)]), (both, [(0, -1)]), ("__consumer_offsets", [(0, 0)])
    ) == {
        (compacted, 0): (-1, "policy_violation"),
        (both, 0): (0, "none"),
        ("__consumer_offsets", 0): (-1, "invalid_topic_exception"),
    }


def test_the_last_wish_counts(ask: Ask, filled: str) -> None:
    wishes = [(filled, [(0, 4), (0, 5)]), (filled, [(1, 0)]), (filled, [(0, 6)])]
    assert delete(ask, *wishes) == {(filled, 0): (6, "none"), (filled, 1): (0, "none")}


@pytest.mark.parametrize("version", range(3))
def test_every_version(ask: Ask, filled: str, version: int) -> None:
    assert delete(ask, (filled, [(0, 2)]), version=version) == {(filled, 0): (2, "none")}
    assert delete(ask, (filled, []), version=version) == {}


def epochs(ask: Ask, name: str, *wanted: tuple[int, int, int], version: int = 4) -> list[Any]:
    """Answers to (partition, current leader epoch, epoch)."""
    partitions = [
        {"partition": index, "current_leader_epoch": current, "leader_epoch": epoch}
        for index, current, epoch in wanted
    ]
    topics = [{"topic": name, "partitions": partitions}]
    answer = ask("offset_for_leader_epoch", version, topics=topics, replica_id=-2)
    return [
        (each["error_code"], each["leader_epoch"], each["end_offset"])
        for topic in answer["topics"]
        for each in topic["partitions"]
    ]


def test_where_an_epoch_ended(ask: Ask, filled: str) -> None:
    unknown = ("none", -1, -1)
    assert epochs(ask, filled, (0, -1, 0), (0, -1, 1), (0, -1, -1), (0, 0, 0), (2, -1, 0)) == [
        ("none", 0, 10),
        unknown,
        unknown,
        ("none", 0, 10),
        ("none", 0, 0),
    ]
    # An epoch before the first one ended where that began.
    assert epochs(ask, filled, (0, -1, -5)) == [("none", -5, 0)]


def test_epochs_that_are_refused(ask: Ask, filled: str) -> None:
    assert epochs(ask, filled, (0, 5, 0), (99, -1, 0), (-1, -1, 0)) == [
        ("unknown_leader_epoch", -1, -1),
        ("unknown_topic_or_partition", -1, -1),
        ("unknown_topic_or_partition", -1, -1),
    ]
    assert epochs(ask, "nowhere", (0, -1, 0)) == [("unknown_topic_or_partition", -1, -1)]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_every_version_of_epochs(ask: Ask, filled: str, version: int) -> None:
    assert epochs(ask, filled, (0, -1, 0), version=version) == [("none", 0, 10)]
