"""Where partitions are placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.metadata.rules.assignments import (
    check_assignments,
    in_turns,
    spread_replicas,
    start_after,
)
from drumlin.wire.error_codes import ErrorCode, KafkaError

RACKS = st.dictionaries(
    st.integers(0, 1000), st.sampled_from((None, "a", "b", "c")), min_size=1, max_size=7
)


@given(RACKS, st.integers(1, 40), st.integers(0, 20), st.data())
def test_leaders_replicas_and_racks_are_spread_evenly(
    racks: dict[int, str | None], partition_count: int, added_count: int, data: st.DataObject
) -> None:
    replication_factor = data.draw(st.integers(1, len(racks)))
    start = data.draw(st.integers(0, len(racks) - 1))
    assignment = spread_replicas(racks, partition_count, replication_factor, start)
    first = assignment[0][0]
    assert start_after(racks, first) == start
    # Later ones continue where these have ended.
    added = spread_replicas(racks, added_count, replication_factor, start, partition_count)
    assert len(assignment) == partition_count
    assert len(added) == added_count
    whole = [*assignment, *added]
    assert whole == list(spread_replicas(racks, len(whole), replication_factor, start))
    for replicas in whole:
        assert len(set(replicas)) == replication_factor
        assert set(replicas) <= racks.keys()
        used = {racks[each] for each in replicas}
        assert len(used) == min(len(set(racks.values())), replication_factor)
    leaders = Counter(replicas[0] for replicas in whole)
    counts = [leaders.get(broker, 0) for broker in racks]
    assert max(counts) - min(counts) <= 1
    # What was spread would also be taken from a client.
    assert list(check_assignments(list(enumerate(whole)), racks.keys())) == whole


def test_leaders_of_a_broker_have_their_followers_on_all_others() -> None:
    assignment = spread_replicas(dict.fromkeys(range(4)), 12, 2, 0)
    assert Counter(assignment) == Counter(
        (leader, follower) for leader in range(4) for follower in range(4) if leader != follower
    )


def test_racks_take_turns() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert in_turns(racks) == [0, 3, 1, 5, 4, 2]  # as in Apache Kafka's own example


def test_too_few_brokers() -> None:
    with pytest.raises(KafkaError) as caught:
        spread_replicas({1: None, 2: None}, 1, 3, 0)
    assert caught.value.code is ErrorCode.invalid_replication_factor


def test_replication_factors_that_differ() -> None:
    with pytest.raises(KafkaError) as caught:
        check_assignments([(0, [1, 2]), (1, [1])], {1, 2})
    assert caught.value.code is ErrorCode.invalid_replica_assignment
    message = "a partition is assigned 1 replicas, and those before it have 2"
    assert caught.value.message == message


class _Looked(tuple[int, ...]):
    """Replicas that remember how many of them were looked at."""

    most = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        _Looked.most = max(_Looked.most, len(found))
        return found

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("all of them are looked at")


def test_of_very_many_replicas_those_are_looked_at_that_make_them_wrong() -> None:
    with pytest.raises(KafkaError) as caught:
        check_assignments([(0, _Looked(range(100_000)))], {0, 1, 2})
    assert caught.value.code is ErrorCode.invalid_replica_assignment
    assert 3 < _Looked.most <= 1000
