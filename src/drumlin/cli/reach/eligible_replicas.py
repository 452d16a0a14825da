"""Replicas that may lead a partition without being in sync (KIP-966), as brokers report them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from drumlin.cli.reach.cluster import Cluster
from drumlin.peer.peer_error import ConnectionLost, RequestTimeout, UnsupportedByBroker
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)

#: The most topics in one request, and the most partitions in one answer.
_TOPICS_ASKED: Final = 500
_PARTITIONS_TOLD: Final = 2000
#: Kafka's names for these replicas; a table shows the columns only if they are not empty.
COLUMNS: Final = ("elr", "last_known_elr")


class EligibleReplicas(NamedTuple):
    """The eligible leader replicas of one partition; see `eligible.py` in the metadata."""

    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


#: By topic and partition; partitions without any are left out.
Eligible = Mapping[tuple[str, int], EligibleReplicas]


def ask_eligible(cluster: Cluster, topics: Collection[str]) -> Eligible | None:
    """The eligible replicas of these topics; None where brokers do not report them.

    Raises:
        PeerError: the brokers do not answer.
    """
    found: dict[tuple[str, int], EligibleReplicas] = {}
    names = iter(sorted(topics))
    while asked := list(itertools.islice(names, _TOPICS_ASKED)):
        try:
            found.update(_ask(cluster, asked))
        except (UnsupportedByBroker, ConnectionLost, RequestTimeout):
            return None  # the broker is too old for this, or was killed a moment ago
    return found


def _ask(cluster: Cluster, topics: list[str]) -> Eligible:
    found: dict[tuple[str, int], EligibleReplicas] = {}
    start: tuple[str, int] | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=tuple(TopicRequest(name=each) for each in topics),
            response_partition_limit=_PARTITIONS_TOLD,
            cursor=start and Cursor(topic_name=start[0], partition_index=start[1]),
        )
        answer = cluster.ask_any("describe_topic_partitions", request)
        for topic in answer.topics:
            if topic.error_code is ErrorCode.none:
                found |= {(topic.name, index): each for index, each in _told(topic)}
        cursor = answer.next_cursor
        if cursor is None or (cursor.topic_name, cursor.partition_index) == start:
            return found
        start = cursor.topic_name, cursor.partition_index


def _told(topic: Any) -> Iterable[tuple[int, EligibleReplicas]]:
    for each in topic.partitions:
        elr, last_known = each.eligible_leader_replicas or (), each.last_known_elr or ()
        if elr or last_known:
            yield each.partition_index, EligibleReplicas(tuple(elr), tuple(last_known))


def as_row(eligible: Eligible | None, topic: str, partition: int) -> dict[str, list[int] | None]:
    """The fields of a partition's row; None if brokers do not report them."""
    if eligible is None:
        return dict.fromkeys(COLUMNS)
    replicas = eligible.get((topic, partition), EligibleReplicas())
    return {column: list(each) for column, each in zip(COLUMNS, replicas, strict=True)}


def columns_for(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The columns, to be shown last, if any row has a value for them."""
    return COLUMNS if any(row.get(column) for row in rows for column in COLUMNS) else ()
