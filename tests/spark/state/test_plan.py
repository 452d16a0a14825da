"""A plan of a topic that changes while the plan is made."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from drumlin.spark.options.offsets import LATEST, OffsetLimit, TopicPartition
from drumlin.spark.planning.cluster import Cluster
from drumlin.spark.state.options import COLUMNS, StateOptions
from drumlin.spark.state.plan import plan_state
from spark.topics import Topic

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("since", [None, OffsetLimit(LATEST)])
def test_a_topic_that_grows(
    address: str, monkeypatch: pytest.MonkeyPatch, since: OffsetLimit | None
) -> None:
    topic = Topic(address, 1).create()
    topic.fill(10)
    earliest = Cluster.earliest

    def grown(self: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        starts = earliest(self, partitions)
        topic.delete_records_before(0, 5)
        topic.fill(10)
        topic.add_partitions(2)
        topic.fill(4)
        return starts

    monkeypatch.setattr(Cluster, "earliest", grown)
    plan = plan_state(StateOptions.of(topic.name, address, COLUMNS, {}), OffsetLimit(LATEST), since)
    assert plan.end == {(topic.name, 0): 22}
    ((planned,),) = plan.tasks
    assert (planned.start_offset, planned.end_offset) == (0, 22)
