"""A partition that is paused, whatever is done about it at that moment, can be read again."""

from __future__ import annotations

import pytest

from drumlin.client.consumer.positions import PartitionState, Stage
from drumlin.client.topic_partition import TopicPartition


@pytest.mark.parametrize(
    ("stage", "then", "is_another"),
    [
        (Stage.STARTING, Stage.STARTING, False),  # what is asked for it is still for it
        (Stage.CHECKING, Stage.CHECKING, True),
        (Stage.FETCHING, Stage.FETCHING, True),
        (Stage.WAITING, Stage.CHECKING, True),  # who holds it would not know it again
        (Stage.FAILED, Stage.FAILED, True),
    ],
)
def test_what_holds_it_lets_it_go(stage: Stage, then: Stage, is_another: bool) -> None:
    state = PartitionState(TopicPartition("t", 0), stage)
    state.position, state.fetch_offset, state.buffered = 5, 9, 1
    version = state.version
    state.pause()
    assert (state.is_paused, state.stage) == (True, then)
    assert (state.version != version) == is_another
    assert state.fetch_offset == (5 if is_another else 9)
