"""What groups have committed for a topic goes with it, and others get their turn meanwhile."""

from __future__ import annotations

from coordination.groups.coordinator.test_group_coordinator import until, with_coordinator
from coordination.memory_log import TOPIC_ID, MemoryLog
from drumlin.clock import ManualClock
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.records.batch.batch import parse_header
from rig.data.committed_offsets import commit_offsets, position


def test_a_deleted_topics_offsets_go_some_at_a_time() -> None:
    """Each batch of tombstones is part of a turn."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        positions = [position("t", TOPIC_ID, each, 1, -1, "") for each in range(1_000)]
        await commit_offsets(coordinator, Commit("g", "", None, -1, None, positions))
        before = {partition: len(batches) for partition, batches in log.batches.items()}
        coordinator.topic_deleted("t", TOPIC_ID)
        await until(lambda: all(each.value is None for each in log.records()[-1_000:]))
        removed = [
            parse_header(batch).record_count
            for partition, batches in log.batches.items()
            for batch in batches[before.get(partition, 0) :]
        ]
        assert sum(removed) == 1_000
        assert max(removed) <= 50

    with_coordinator(run)
