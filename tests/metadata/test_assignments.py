"""Where partitions are placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.metadata.assignments import check_assignments, spread_replicas
from drumlin.wire.errors import ErrorCode, KafkaError


@given(
    st.sets(st.integers(0, 1000), min_size=1, max_size=7),
    st.integers(1, 40),
    st.data(),
)
def test_leaders_and_replicas_are_spread_evenly(
    brokers: set[int], partition_count: int, data: st.DataObject
) -> None:
    replication_factor = data.draw(st.integers(1, len(brokers)))
    start = data.draw(st.integers(0, 100))
    assignment = spread_replicas(brokers, partition_count, replication_factor, start)
    assert len(assignment) == partition_count
    for replicas in assignment:
        assert len(set(replicas)) == replication_factor
        assert set(replicas) <= brokers
    leaders = Counter(replicas[0] for replicas in assignment)
    counts = [leaders.get(broker, 0) for broker in brokers]
    assert max(counts) - min(counts) <= 1
    # What was spread would also be taken from a client.
    assert check_assignments(list(enumerate(assignment)), brokers) == assignment


def test_too_few_brokers() -> None:
    with pytest.raises(KafkaError) as caught:
        spread_replicas({1, 2}, 1, 3, 0)
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
