"""Leaders ask for ISRs: what the metadata's answers mean, and what is counted of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drumlin.broker.isr_changes import IsrChanges
from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.metadata.store import IsrWish
from drumlin.replication.partition import LeaderContext, Partition
from drumlin.wire.errors import ErrorCode, KafkaError
from rig.waiting import eventually
from storage.samples import append, create, open_logs

_STATE = PartitionState(0, 1, 4, (1, 2), (1,), 7)
#: Called with the partition and what it wishes; what is answered.
Answer = Callable[[Partition, IsrWish], PartitionState | KafkaError]


class Metadata:
    """Answers one partition's wishes, one after the other."""

    def __init__(self, *answers: Answer) -> None:
        self.partition: Partition | None = None
        self.asked: list[IsrWish] = []
        self._answers = list(answers)

    async def alter_isrs(self, wishes: Mapping[PartitionId, IsrWish]) -> dict[PartitionId, Any]:
        ((key, wish),) = wishes.items()
        self.asked.append(wish)
        assert self.partition is not None
        return {key: self._answers.pop(0)(self.partition, wish)}


def joined(partition: Partition, wish: IsrWish) -> PartitionState:
    """It is made, and reported before it is answered, as the store promises."""
    made = replace(_STATE, isr=tuple(each for each, _ in wish.isr), partition_epoch=8)
    partition.agreed(made)
    return made


def play(tmp_path: Path, *answers: Answer) -> tuple[IsrChanges, Partition, Metadata]:
    """A follower has caught up, and the metadata answers its leader."""
    logs = open_logs(tmp_path)
    log = create(logs)
    append(log, 3)
    metadata = Metadata(*answers)

    async def run() -> tuple[IsrChanges, Partition, Metadata]:
        changes = IsrChanges(metadata)  # type: ignore[arg-type]
        context = LeaderContext(
            1,
            lambda node_id, epoch: (node_id, epoch) in ((2, 5), (2, -1)),
            lambda _: None,
            lambda: 30_000.0,
            changes.ask_for,
            lambda _: True,
        )
        partition = metadata.partition = Partition(log, _STATE, context)
        partition.follower_fetched(2, 5, 3, 0)
        await eventually(lambda: len(metadata.asked) == len(answers))
        await asyncio.sleep(0)
        await changes.close()
        return changes, partition, metadata

    outcome = asyncio.run(run())
    logs.abandon()
    return outcome


def test_what_is_made_counts_although_it_was_told_before_the_answer(tmp_path: Path) -> None:
    changes, partition, metadata = play(tmp_path, joined)
    assert metadata.asked == [IsrWish(4, 7, ((1, -1), (2, 5)))]
    assert (partition.isr_size, changes.grown, changes.shrunk) == (2, 1, 0)
    assert partition.isr is not None
    assert partition.isr.pending is None


def test_a_wish_that_changes_nothing_is_not_pending_for_ever(tmp_path: Path) -> None:
    _, partition, _ = play(tmp_path, lambda *_: _STATE)
    assert partition.isr is not None
    assert partition.isr.pending is None


@pytest.mark.parametrize("code", [ErrorCode.kafka_storage_error, ErrorCode.not_controller])
def test_one_whose_outcome_is_unknown_is_asked_for_again(tmp_path: Path, code: ErrorCode) -> None:
    _, partition, metadata = play(tmp_path, lambda *_: KafkaError(code), joined)
    assert metadata.asked[0] == metadata.asked[1]
    assert partition.isr_size == 2


def test_one_that_is_refused_is_not_pending(tmp_path: Path) -> None:
    _, partition, _ = play(tmp_path, lambda *_: KafkaError(ErrorCode.ineligible_replica))
    assert partition.isr is not None
    assert partition.isr.pending is None
    assert partition.isr_size == 1


def test_one_that_comes_as_the_last_is_answered_is_asked_for_too(tmp_path: Path) -> None:
    """In the same turn of the loop: whoever asks has ended, and nobody knows it yet."""

    def refused(partition: Partition, _: IsrWish) -> PartitionState:
        asyncio.get_running_loop().call_soon(partition.follower_fetched, 2, 5, 3, 0)
        return _STATE

    _, partition, metadata = play(tmp_path, refused, joined)
    assert metadata.asked[0] == metadata.asked[1]
    assert partition.isr_size == 2
