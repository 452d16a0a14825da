"""Leaders ask for ISRs: what the metadata's answers mean, and what is counted of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drumlin.broker.hosting.isr_changes import IsrChanges
from drumlin.config.topic import LogConfig
from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.replication.partition import LeaderContext, Partition
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.virtual_time import run_in_virtual_time
from rig.waiting import eventually
from storage.samples import TOPIC_ID, append, create, open_logs

_STATE = PartitionState(0, 1, 4, (1, 2), (1,), 7)
#: Called with the partition and what it wishes; what is answered.
Answer = Callable[[Partition, IsrRequest], PartitionState | KafkaError]


class Metadata:
    """Answers one partition's wishes, one after the other."""

    def __init__(self, *answers: Answer) -> None:
        self.partition: Partition | None = None
        self.asked: list[IsrRequest] = []
        self._answers = list(answers)

    async def alter_isrs(self, wishes: Mapping[PartitionId, IsrRequest]) -> dict[PartitionId, Any]:
        ((key, wish),) = wishes.items()
        self.asked.append(wish)
        assert self.partition is not None
        return {key: self._answers.pop(0)(self.partition, wish)}


def joined(partition: Partition, wish: IsrRequest) -> PartitionState:
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
    assert metadata.asked == [IsrRequest(4, 7, ((1, -1), (2, 5)))]
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

    def refused(partition: Partition, _: IsrRequest) -> PartitionState:
        asyncio.get_running_loop().call_soon(partition.follower_fetched, 2, 5, 3, 0)
        return _STATE

    _, partition, metadata = play(tmp_path, refused, joined)
    assert metadata.asked[0] == metadata.asked[1]
    assert partition.isr_size == 2


class Away:
    """Metadata that cannot be asked for some of the partitions, until it is back."""

    def __init__(self, *away: int) -> None:
        self.away = set(away)
        self.partitions: dict[PartitionId, Partition] = {}
        self.rounds: list[list[int]] = []

    async def alter_isrs(self, wishes: Mapping[PartitionId, IsrRequest]) -> dict[PartitionId, Any]:
        self.rounds.append(sorted(each.partition for each in wishes))
        failure = KafkaError(ErrorCode.kafka_storage_error, "ZooKeeper does not answer")
        return {
            key: failure if key.partition in self.away else joined(self.partitions[key], wish)
            for key, wish in wishes.items()
        }


def run_away(tmp_path: Path, metadata: Away, count: int, scenario: Callable[..., Any]) -> None:
    """The same follower has caught up in so many partitions."""
    logs = open_logs(tmp_path)

    async def run() -> None:
        changes = IsrChanges(metadata)  # type: ignore[arg-type]
        context = LeaderContext(
            1,
            lambda node_id, epoch: (node_id, epoch) in ((2, 5), (2, -1)),
            lambda _: None,
            lambda: 30_000.0,
            changes.ask_for,
            lambda _: True,
        )
        partitions = []
        for index in range(count):
            log = logs.create("t", index, TOPIC_ID, LogConfig())
            partitions.append(Partition(log, replace(_STATE, index=index), context))
            metadata.partitions[PartitionId(log.topic_id, index)] = partitions[-1]
        await scenario(changes, partitions)
        await changes.close()

    run_in_virtual_time(run())
    logs.abandon()


def test_an_outage_takes_few_lines_and_few_attempts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    count = 30
    metadata = Away(*range(count))

    async def scenario(changes: IsrChanges, partitions: list[Partition]) -> None:
        for each in partitions:
            each.follower_fetched(2, 5, 0, 0)
        await asyncio.sleep(600)
        assert len(metadata.rounds) < 310
        assert len(caplog.messages) == 2
        metadata.away.clear()
        partitions[0].close()  # another broker leads it by now
        await asyncio.sleep(3)
        assert [each.isr_size for each in partitions] == [1] + [2] * (count - 1)
        assert "in-sync replicas can be changed again, or need not be" in caplog.messages
        assert metadata.rounds[-1] == list(range(1, count))
        caplog.clear()
        await asyncio.sleep(60)
        assert not caplog.messages

    run_away(tmp_path, metadata, count, scenario)


def test_one_that_cannot_be_asked_for_holds_up_no_other(tmp_path: Path) -> None:
    """Its state is garbage, maybe for days."""
    metadata = Away(0)

    async def scenario(changes: IsrChanges, partitions: list[Partition]) -> None:
        partitions[0].follower_fetched(2, 5, 0, 0)
        await asyncio.sleep(60)
        partitions[1].follower_fetched(2, 5, 0, 0)
        await asyncio.sleep(0.01)
        assert partitions[1].isr_size == 2
        assert metadata.rounds[-1] == [1]

    run_away(tmp_path, metadata, 2, scenario)
