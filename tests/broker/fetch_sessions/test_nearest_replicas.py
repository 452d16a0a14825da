"""Consumers read from a follower in their rack only while it gets what they wait for (KIP-392)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from drumlin.broker.fetch_sessions.partition_read import PartitionRead
from drumlin.broker.hosting.followers import Followers
from drumlin.metadata.image import PartitionState, TopicState
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.partition import LeaderContext, Partition
from drumlin.replication.partition_registry import PartitionRegistry
from drumlin.replication.waiting_room import Waiter
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.wire.by_hand.fetch_answer import NOTHING, PreferredReplica
from drumlin.wire.error_codes import ErrorCode
from storage.samples import append, create, open_logs

_CONSUMER, _FOLLOWER = -1, 1
_LEADER, _NEAR = 1, 2
_STATE = PartitionState(0, _LEADER, 0, (_LEADER, _NEAR), (_LEADER, _NEAR), 5)
_WITHOUT = replace(_STATE, isr=(_LEADER,), partition_epoch=6)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    logs = open_logs(tmp_path)
    made = create(logs)
    append(made, 6)
    append(made, 4)
    yield made
    logs.abandon()


def look(
    partition: Partition | FollowedPartition, offset: int, replica_id: int = _CONSUMER
) -> tuple[Any, ...]:
    read = PartitionRead(1 << 20, 0, replica_id, 0, "rack-2" if replica_id == _CONSUMER else None)
    return read.look(partition, (0, -1, offset, -1, 0, 1 << 20), may_block=True)


def test_none_is_sent_to_a_follower_that_is_not_in_sync(log: PartitionLog) -> None:
    """It may be alive and get nothing any more: what it has ends there."""
    context = LeaderContext(
        _LEADER,
        lambda *_: True,
        "rack-{}".format,
        lambda: 30_000.0,
        lambda *_: None,
        lambda _: True,
    )
    partition = Partition(log, _STATE, context)
    partition.follower_fetched(_NEAR, 5, 4, 0)
    assert look(partition, 4)[6] == PreferredReplica(_NEAR)
    partition.agreed(_WITHOUT)
    partition.follower_fetched(_NEAR, 5, 4, 0)
    assert look(partition, 4)[6] is None
    partition.follower_fetched(_NEAR, 5, 10, 0)
    partition.agreed(replace(_STATE, partition_epoch=7))
    assert look(partition, 4)[6] == PreferredReplica(_NEAR)


class Following:
    """Broker 2, which follows the partition."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._registry = PartitionRegistry(lambda *_: True)
        nobody: Any = SimpleNamespace(follow=lambda _: None, forget=lambda *_: None)
        self._followers = Followers(_NEAR, self._registry, nobody)
        self.hear(_STATE)

    def hear(self, state: PartitionState) -> None:
        topic = TopicState(self._log.topic, UUID(int=1), (state,))
        self._followers.follow(topic, state, self._log)

    @property
    def partition(self) -> FollowedPartition:
        found = self._registry.find_followed(self._log.topic, 0)
        assert found is not None
        return found


def test_a_follower_that_is_not_in_sync_sends_them_back_once_they_have_all(
    log: PartitionLog,
) -> None:
    following = Following(log)
    partition = following.partition
    log.high_watermark = 6
    assert look(partition, 6)[0] == 0
    following.hear(_WITHOUT)
    assert following.partition is partition
    assert look(partition, 6)[0] == ErrorCode.not_leader_or_follower
    assert look(partition, 5)[5] is not NOTHING  # what it has is right all the same
    assert look(partition, 6, _FOLLOWER)[0] == 0
    following.hear(replace(_STATE, partition_epoch=7))
    assert look(partition, 6)[0] == 0


def test_who_waits_at_a_follower_looks_again_when_that_is_not_in_sync_any_more(
    log: PartitionLog,
) -> None:
    following, told = Following(log), list[int]()
    following.partition.waiting.enter(Waiter(1, lambda: told.append(1)))
    following.hear(replace(_STATE, partition_epoch=6))
    assert not told
    following.hear(replace(_WITHOUT, partition_epoch=7))
    assert told
