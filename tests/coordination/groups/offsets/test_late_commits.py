"""A commit that replicas had too late: the client may try again."""

from __future__ import annotations

import pytest

from coordination.groups.coordinator.test_group_coordinator import commit, with_coordinator
from coordination.memory_log import MemoryLog
from coordination.settings import Settings
from drumlin.clock import ManualClock
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.data.committed_offsets import commit_offsets, fetch_offsets


def test_a_commit_that_was_late_may_be_tried_again() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        log.confirmations = []
        with pytest.raises(KafkaError):
            await commit_offsets(coordinator, commit("g"))
        for late in log.confirmations:
            late.set_result(None)
        log.confirmations = None
        assert await commit_offsets(coordinator, commit("g")) == [ErrorCode.none]
        assert len(await fetch_offsets(coordinator, "g", None)) == 1

    with_coordinator(run, Settings(offsets_commit_timeout_ms=20))
