"""An offset after the end of the log, at a leader that may have a successor by now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drumlin.broker.fetch_sessions.partition_read import PartitionRead
from drumlin.metadata.image import PartitionState
from drumlin.replication.partition import LeaderContext, Partition
from drumlin.replication.replica import Replica
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.wire.error_codes import ErrorCode
from storage.samples import append, create, open_logs

_CONSUMER, _FOLLOWER = -1, 2


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    logs = open_logs(tmp_path)
    made = create(logs)
    append(made, 10)
    yield made
    logs.abandon()


def led(log: PartitionLog, *replicas: int, is_certain: bool) -> Partition:
    state = PartitionState(0, 1, 0, replicas, (1,))
    context = LeaderContext(
        1,
        lambda *_: True,
        lambda _: None,
        lambda: 30_000.0,
        lambda *_: None,
        lambda _: is_certain,
    )
    return Partition(log, state, context)


def told(partition: Replica, offset: int, replica_id: int = _CONSUMER) -> ErrorCode:
    read = PartitionRead(1 << 20, 0, replica_id, 0, None)
    answer = read.look(partition, (0, -1, offset, -1, 0, 1 << 20), may_block=True)
    return ErrorCode(answer[0])


def test_one_that_may_have_a_successor_does_not_have_consumers_reset(log: PartitionLog) -> None:
    partition = led(log, 1, 2, is_certain=False)
    assert told(partition, 11) is ErrorCode.offset_not_available
    assert told(partition, 10) is ErrorCode.none
    log.delete_records_before(5)
    assert told(partition, 4) is ErrorCode.offset_out_of_range
    assert told(partition, 11, _FOLLOWER) is ErrorCode.offset_out_of_range


@pytest.mark.parametrize(("replicas", "is_certain"), [((1, 2), True), ((1,), False)])
def test_the_only_leader_knows_where_it_ends(
    log: PartitionLog, replicas: tuple[int, ...], *, is_certain: bool
) -> None:
    partition = led(log, *replicas, is_certain=is_certain)
    assert told(partition, 11) is ErrorCode.offset_out_of_range
