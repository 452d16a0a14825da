"""What a leader makes of what its followers say that they have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drumlin.metadata.image import PartitionState
from drumlin.replication.partition import LeaderContext, Partition
from storage.samples import NOW_MS, append, create, from_producer, open_logs

_FOLLOWER, _EPOCH = 2, 5
_READ_COMMITTED = 1


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    """Led by broker 1, in sync with broker 2; there are four records, which only the leader has."""
    logs = open_logs(tmp_path)
    log = create(logs)
    context = LeaderContext(
        1,
        lambda *_: True,
        lambda _: None,
        lambda: 30_000.0,
        lambda *_: None,
        lambda _: True,
    )
    partition = Partition(log, PartitionState(0, 1, 4, (1, 2), (1, 2), 7), context)
    append(log, 4)
    yield partition
    logs.abandon()


@pytest.mark.parametrize("offset", [5, 1 << 40])
def test_an_offset_beyond_the_end_is_no_progress(partition: Partition, offset: int) -> None:
    """Such a follower has another log: it is told to cut it, and has nothing of ours so far."""
    partition.follower_fetched(_FOLLOWER, _EPOCH, 2, 0)
    partition.follower_fetched(_FOLLOWER, _EPOCH, offset, 0)
    append(partition.log, 2)
    partition.drop_laggards()
    assert partition.high_watermark == 2
    assert partition.awaits_replicas


def test_an_offset_below_the_start_is_no_progress(partition: Partition) -> None:
    partition.follower_fetched(_FOLLOWER, _EPOCH, 4, 0)
    partition.log.delete_records_before(3)
    partition.follower_fetched(_FOLLOWER, _EPOCH, 2, 0)
    append(partition.log)
    partition.follower_fetched(_FOLLOWER, _EPOCH, 5, 3)
    assert partition.high_watermark == 5


def test_read_committed_ends_at_the_high_watermark_before_an_open_transaction(
    partition: Partition,
) -> None:
    """What lies above it may be taken back, though no transaction holds it up."""
    partition.log.append_as_leader(from_producer(0, is_transactional=True), 4, NOW_MS)
    partition.follower_fetched(_FOLLOWER, _EPOCH, 2, 0)
    assert partition.high_watermark == 2
    assert partition.last_stable_offset == 2
    assert partition.offsets() == (2, 2, 0)
    assert partition.readable_end_offset(_READ_COMMITTED) == 2
    partition.follower_fetched(_FOLLOWER, _EPOCH, 5, 0)
    assert partition.offsets() == (5, 4, 0)


def test_the_last_stable_offset_is_never_below_the_start(partition: Partition) -> None:
    """Retention may delete the beginning of a transaction that is open."""
    partition.log.append_as_leader(from_producer(0, 3, is_transactional=True), 4, NOW_MS)
    partition.follower_fetched(_FOLLOWER, _EPOCH, 7, 0)
    assert partition.offsets() == (7, 4, 0)
    partition.log.delete_records_before(6)
    assert partition.offsets() == (7, 6, 6)
