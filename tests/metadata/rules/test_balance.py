"""When partitions go back to their preferred leaders."""

from __future__ import annotations

from uuid import UUID

from drumlin.metadata.image import PartitionState, TopicState
from drumlin.metadata.rules.balance import to_be_led_as_preferred
from drumlin.turns import to_end


def uneven(states: list[PartitionState], percentage: int = 10) -> list[int]:
    topic = TopicState("t", UUID(int=7), tuple(states))
    found = to_end(to_be_led_as_preferred([topic], {1, 2, 3}, percentage))
    return [each.partition for each in found]


def state(index: int, leader: int, *replicas: int, isr: tuple[int, ...] = ()) -> PartitionState:
    return PartitionState(index, leader, 4, replicas, isr or replicas)


def test_those_that_could_be_led_by_the_first_replica() -> None:
    states = [state(0, 2, 1, 2), state(1, 1, 1, 2), state(2, 2, 2, 1), state(3, 3, 2, 3)]
    assert uneven(states) == [0, 3]


def test_not_by_one_that_is_out_of_sync_or_gone_or_while_it_moves() -> None:
    moving = state(2, 2, 1, 2).with_assignment(((1, 2), (3,), ()))  # type: ignore[arg-type]
    states = [state(0, 2, 1, 2, isr=(2,)), state(1, 3, 9, 3), moving]
    assert uneven(states) == []


def test_a_few_may_be_led_elsewhere() -> None:
    states = [state(index, 1, 1, 2) for index in range(9)]
    assert uneven([*states, state(9, 2, 1, 2)], percentage=10) == []
    assert uneven([*states, state(9, 2, 1, 2)], percentage=9) == [9]
