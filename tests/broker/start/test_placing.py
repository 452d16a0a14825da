"""Which of a machine's brokers gets which partition when their number changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from drumlin.broker.start.placing import Logs, Placement, place
from drumlin.metadata.image import (
    NO_LEADER,
    LastKnown,
    LogEnd,
    PartitionId,
    PartitionState,
    TopicState,
)


def topic(number: int, *replicas: tuple[int, ...]) -> TopicState:
    """Each partition in sync, and led by its first replica."""
    states = tuple(PartitionState(i, each[0], 5, each, each) for i, each in enumerate(replicas))
    return TopicState(f"t{number}", UUID(int=number + 1), states)


def logs(
    topics: list[TopicState], unclean: Collection[int] = (), lost: Collection[int] = ()
) -> dict[PartitionId, Logs]:
    """Brokers whose disk was replaced have lost all logs; unclean ones were not closed cleanly."""
    return {
        PartitionId(topic.topic_id, each.index): {
            node_id: node_id not in unclean for node_id in each.replicas if node_id not in lost
        }
        for topic in topics
        for each in topic.partitions
    }


def with_placements(
    topics: list[TopicState], placements: dict[PartitionId, Placement]
) -> list[TopicState]:
    return [
        each.with_states(
            {
                index: placement.state
                for (topic_id, index), placement in placements.items()
                if topic_id == each.topic_id
            }
        )
        for each in topics
    ]


def replicas(topics: list[TopicState]) -> list[list[tuple[int, ...]]]:
    return [[each.replicas for each in topic.partitions] for topic in topics]


def test_partitions_of_one_broker_are_spread() -> None:
    topics = [topic(0, *[(1,)] * 6), topic(1, (1,)), topic(2, (1,))]
    placements = place(topics, [1, 2, 3, 4], {})
    after = with_placements(topics, placements)
    counts = Counter(each.replicas[0] for each in after[0].partitions)
    assert sorted(counts.values()) == [1, 1, 2, 2]
    load = Counter(each.replicas[0] for found in after for each in found.partitions)
    assert load == {1: 2, 2: 2, 3: 2, 4: 2}
    for placement in placements.values():
        state = placement.state
        assert placement.moves == ((1, state.leader),)
        assert (state.leader_epoch, state.isr) == (6, state.replicas)


def test_what_is_even_already_stays() -> None:
    topics = [topic(0, (1,), (2,), (1,), (2,)), topic(1, (2,), (1, 2)), topic(2, (1,))]
    assert place(topics, [1, 2], {}) == {}


def test_all_goes_back_to_one_broker() -> None:
    topics = [topic(0, (1,), (2,), (3,)), topic(1, (4,))]
    after = with_placements(topics, place(topics, [1], {}))
    assert replicas(after) == [[(1,), (1,), (1,)], [(1,)]]


def test_a_replica_goes_where_there_is_none_yet() -> None:
    topics = [topic(0, (4, 2, 3))]
    placements = place(topics, [1, 2, 3], {})
    (placement,) = placements.values()
    assert placement.moves == ((4, 1),)
    assert placement.state == PartitionState(0, 1, 6, (1, 2, 3), (1, 2, 3))


def test_without_room_there_are_fewer_replicas() -> None:
    topics = [topic(0, (3, 1, 2))]
    (placement,) = place(topics, [1, 2], {}).values()
    assert placement == Placement(PartitionState(0, 1, 6, (1, 2), (1, 2)), (), (3,))


def test_the_only_log_with_all_records_takes_the_place_of_another() -> None:
    state = PartitionState(0, 3, 5, (1, 2, 3), (3,))
    topics = [TopicState("t", UUID(int=1), (state,))]
    (placement,) = place(topics, [1, 2], {}).values()
    assert placement == Placement(PartitionState(0, 1, 6, (1, 2), (1,)), ((3, 1),), (1,))


def test_the_one_in_sync_is_moved_rather_than_another() -> None:
    state = PartitionState(0, NO_LEADER, 5, (3, 4), (4,))
    topics = [TopicState("t", UUID(int=1), (state,))]
    (placement,) = place(topics, [1], {}).values()
    assert placement == Placement(PartitionState(0, NO_LEADER, 5, (1,), (1,)), ((4, 1),), (3,))


def test_a_reassignment_goes_on_with_other_brokers() -> None:
    state = PartitionState(0, 1, 5, (4, 1), (1,), 0, (4,), (1,))
    topics = [TopicState("t", UUID(int=1), (state,))]
    (placement,) = place(topics, [1, 2], {}).values()
    assert placement.state == PartitionState(0, 1, 5, (2, 1), (1,), 0, (2,), (1,))
    assert placement.moves == ((4, 2),)


def test_a_reassignment_ends_without_the_broker_that_it_is_for() -> None:
    state = PartitionState(0, 1, 5, (4, 1), (1,), 0, (4,), (1,))
    topics = [TopicState("t", UUID(int=1), (state,))]
    (placement,) = place(topics, [1], {}).values()
    assert placement == Placement(PartitionState(0, 1, 5, (1,), (1,)), (), (4,))


def test_a_closed_log_is_kept_rather_than_one_that_was_not_closed() -> None:
    topics = [topic(0, (1, 3, 2))]
    (placement,) = place(topics, [1, 2], logs(topics, unclean=[1])).values()
    assert placement == Placement(PartitionState(0, 1, 6, (1, 2), (1, 2)), ((3, 1),), (1,))


def test_the_only_log_that_is_left_takes_the_place_of_one_that_is_lost() -> None:
    topics = [topic(0, (1, 2))]
    (placement,) = place(topics, [1], logs(topics, lost=[1])).values()
    assert placement == Placement(PartitionState(0, 1, 6, (1,), (1,)), ((2, 1),), (1,))


def test_whose_log_is_lost_is_not_in_sync_any_more() -> None:
    topics = [topic(0, (1, 2, 3))]
    (placement,) = place(topics, [1, 2], logs(topics, lost=[1, 2])).values()
    assert placement == Placement(PartitionState(0, 1, 6, (1, 2), (1,)), ((3, 1),), (1,))


def test_a_log_that_was_out_of_sync_is_kept_but_does_not_lead_by_itself() -> None:
    state = PartitionState(0, 1, 5, (1, 2), (1,))
    topics = [TopicState("t", UUID(int=1), (state,))]
    (placement,) = place(topics, [1], logs(topics, lost=[1])).values()
    assert placement == Placement(PartitionState(0, NO_LEADER, 6, (1,), ()), ((2, 1),), (1,))


def test_where_no_log_is_left_the_partition_is_led_as_before() -> None:
    topics = [topic(0, (1, 2))]
    (placement,) = place(topics, [1], logs(topics, lost=[1, 2])).values()
    assert placement == Placement(PartitionState(0, 1, 5, (1,), (1,)), (), (2,))


@st.composite
def states(draw: st.DrawFn, index: int) -> PartitionState:
    assigned = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4, unique=True))
    isr = draw(st.lists(st.sampled_from(assigned), min_size=1, unique=True))
    leader = draw(st.sampled_from([*isr, NO_LEADER]))
    roles = [draw(st.sampled_from(["adding", "removing", "neither"])) for _ in assigned[1:]]
    ways = {
        role: tuple(each for each, its in zip(assigned[1:], roles, strict=True) if its == role)
        for role in ("adding", "removing")
    }
    return PartitionState(index, leader, 5, tuple(assigned), tuple(isr), **ways)


@st.composite
def clusters(draw: st.DrawFn) -> list[TopicState]:
    sizes = draw(st.lists(st.integers(1, 7), max_size=6))
    return [
        TopicState(f"t{n}", UUID(int=n + 1), tuple(draw(states(index)) for index in range(size)))
        for n, size in enumerate(sizes)
    ]


@given(clusters(), st.integers(1, 6), st.sets(st.integers(1, 5)), st.sets(st.integers(1, 5)))
def test_every_partition_keeps_its_records(
    topics: list[TopicState], count: int, unclean: set[int], lost: set[int]
) -> None:
    brokers = range(1, count + 1)
    there = logs(topics, unclean, lost)
    placements = place(topics, brokers, there)
    after = with_placements(topics, placements)
    for before, now in zip(topics, after, strict=True):
        for old, new in zip(before.partitions, now.partitions, strict=True):
            partition = PartitionId(before.topic_id, old.index)
            placement = placements.get(partition, Placement(new))
            come_from = {target: source for source, target in placement.moves}
            kept = {come_from.get(each, each) for each in new.replicas}
            assert set(new.replicas) <= set(brokers)
            assert len(set(new.replicas)) == len(new.replicas) == min(len(old.replicas), count)
            assert kept | set(placement.dropped) == set(old.replicas)
            assert not kept & set(placement.dropped)
            # A log is dropped only where no other one is missing, and none that is in sync for one
            # that is not.
            dropped_logs = there[partition].keys() & set(placement.dropped)
            if dropped_logs:
                assert kept <= there[partition].keys()
            if set(old.isr) & dropped_logs:
                assert kept <= set(old.isr)
            assert set(new.isr) <= set(new.replicas)
            assert {come_from.get(each, each) for each in new.isr} <= set(old.isr)
            if set(old.isr) & there[partition].keys():
                assert new.isr
            assert new.leader in (*new.isr, NO_LEADER)
            assert old.leader == NO_LEADER or not new.isr or new.leader != NO_LEADER
            target = set(new.replicas) - set(new.removing)
            assert set(new.removing) <= set(new.replicas)
            assert set(new.adding) <= target
            assert target
            leads_on = come_from.get(new.leader, new.leader) == old.leader == new.leader
            assert new.leader_epoch - old.leader_epoch == (not leads_on)
        singles = [each.replicas[0] for each in now.partitions if len(each.replicas) == 1]
        kept_single = [each for each in before.partitions if len(each.replicas) == 1]
        if len(kept_single) == len(singles):
            assert max(Counter(singles).values(), default=0) <= -(-len(singles) // count)


def test_who_may_lead_goes_along() -> None:
    """Brokers 3 and 4 are no more: the log of 3 moves to 2, that of 4 is dropped."""
    known = (LastKnown(3, LogEnd(5, 70), True), LastKnown(4, LogEnd(5, 60), True))
    state = PartitionState(0, NO_LEADER, 5, (1, 3, 4), (1,), last_known=known, last_leader=3)
    (placement,) = place([TopicState("t", UUID(int=1), (state,))], [1, 2], {}).values()
    assert (placement.moves, placement.dropped) == (((3, 2),), (4,))
    assert placement.state.last_known == (LastKnown(2, LogEnd(5, 70), True),)
    assert placement.state.last_leader == 2
