"""Reassignments and elections of a broker that is alone: codes are those of Apache Kafka 4.3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from broker.conftest import Ask

Create = Callable[..., str]
_TIMEOUT_MS = 10_000


def alter(
    ask: Ask, name: str, targets: Sequence[tuple[int, list[int] | None]], **fields: Any
) -> tuple[str, list[tuple[int, str]]]:
    partitions = [{"partition_index": index, "replicas": each} for index, each in targets]
    request = {"timeout": _TIMEOUT_MS, "allow_replication_factor_change": True, **fields}
    topics = [{"name": name, "partitions": partitions}]
    answer = ask("alter_partition_reassignments", 1, topics=topics, **request)
    (told,) = answer["responses"]
    assert told["name"] == name
    codes = [(each["partition_index"], each["error_code"]) for each in told["partitions"]]
    return answer["error_code"], codes


def test_where_all_partitions_are_already(ask: Ask, create: Create) -> None:
    name = create(partitions=2)
    assert alter(ask, name, [(0, [1]), (1, None), (0, [1]), (2, [1]), (-1, [1])]) == (
        "none",
        [
            (0, "none"),
            (1, "no_reassignment_in_progress"),
            (0, "none"),
            (2, "unknown_topic_or_partition"),
            (-1, "unknown_topic_or_partition"),
        ],
    )
    answer = ask("list_partition_reassignments", 0, topics=None, timeout=_TIMEOUT_MS)
    assert (answer["error_code"], answer["topics"]) == ("none", [])
    wanted = [{"name": each, "partition_indexes": [0, 7]} for each in (name, "nowhere")]
    answer = ask("list_partition_reassignments", 0, topics=wanted, timeout=_TIMEOUT_MS)
    assert (answer["error_code"], answer["topics"]) == ("none", [])


@pytest.mark.parametrize("replicas", [[], [2], [1, 2], [1, 1], [-1]])
def test_what_is_no_assignment(ask: Ask, create: Create, replicas: list[int]) -> None:
    assert alter(ask, create(), [(0, replicas)])[1] == [(0, "invalid_replica_assignment")]


def test_the_number_of_replicas_may_be_protected(ask: Ask, create: Create) -> None:
    name = create()
    protected = {"allow_replication_factor_change": False}
    assert alter(ask, name, [(0, [1, 2])], **protected)[1] == [(0, "invalid_replication_factor")]
    assert alter(ask, name, [(0, [1])], **protected)[1] == [(0, "none")]


def test_a_request_whose_time_is_up(ask: Ask, create: Create) -> None:
    name, code = create(), "request_timed_out"
    assert alter(ask, name, [(0, [1])], timeout=0) == (code, [(0, code)])
    assert elect(ask, 0, [(name, [0])], timeout=0) == (code, {name: [(0, code)]})


def elect(
    ask: Ask,
    election_type: int,
    wanted: Sequence[tuple[str, list[int]]] | None,
    timeout: int = _TIMEOUT_MS,
) -> tuple[str, dict[str, list[tuple[int, str]]]]:
    topics = None
    if wanted is not None:
        topics = [{"topic": name, "partitions": indexes} for name, indexes in wanted]
    answer = ask(
        "elect_leaders", 2, election_type=election_type, topic_partitions=topics, timeout=timeout
    )
    return answer["error_code"], {
        each["topic"]: [
            (one["partition_id"], one["error_code"]) for one in each["partition_result"]
        ]
        for each in answer["replica_election_results"]
    }


@pytest.mark.parametrize("election_type", [0, 1])
def test_who_leads_all_is_elected_for_nothing(ask: Ask, create: Create, election_type: int) -> None:
    name = create(partitions=2)
    wanted = [(name, [1, 5]), ("nowhere", [0])]
    assert elect(ask, election_type, wanted) == (
        "none",
        {
            name: [(1, "election_not_needed"), (5, "unknown_topic_or_partition")],
            "nowhere": [(0, "unknown_topic_or_partition")],
        },
    )
    code, results = elect(ask, election_type, None)
    assert code == "none"
    assert name in results
    assert not any(results.values())


def test_elections_of_other_kinds(ask: Ask, create: Create) -> None:
    name = create()
    code = "invalid_request"
    assert elect(ask, 2, [(name, [0])]) == (code, {name: [(0, code)]})
    topics = [{"topic": name, "partitions": [0]}]
    answer = ask("elect_leaders", 0, topic_partitions=topics, timeout=_TIMEOUT_MS)
    (result,) = answer["replica_election_results"]
    assert result["partition_result"][0]["error_code"] == "election_not_needed"


def test_brokers_that_cannot_be_forgotten(ask: Ask) -> None:
    for broker_id, code in ((1, "invalid_request"), (7, "broker_id_not_registered")):
        answer = ask("unregister_broker", 0, broker_id=broker_id)
        assert answer["error_code"] == code
        assert answer["error_message"]
