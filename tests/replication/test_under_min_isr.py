"""While too few are in sync nothing is committed, so whoever was in sync may lead (KIP-966)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from drumlin.config.topic import LogConfig
from drumlin.metadata.image import LastKnown, LogEnd, PartitionState
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.replication.partition import LeaderContext, Partition
from drumlin.wire.error_codes import ErrorCode, KafkaError
from storage.samples import append, create, open_logs

_STATE = PartitionState(0, 1, 4, (1, 2, 3), (1, 2), 7)


def led(
    path: Path,
    state: PartitionState,
    ask_for: Callable[[Partition, IsrRequest], None] | None = None,
    min_insync_replicas: int = 2,
) -> Partition:
    """By broker 1: of three records all followers have two."""
    log = create(open_logs(path), config=LogConfig(min_insync_replicas=min_insync_replicas))
    context = LeaderContext(
        1,
        lambda *_: True,
        lambda _: None,
        lambda: 30_000.0,
        ask_for or (lambda *_: None),
        lambda _: True,
    )
    partition = Partition(log, state, context)
    append(log, 3)
    for follower in state.replicas[1:]:
        partition.follower_fetched(follower, 5, 2, 0)
    return partition


def grown(state: PartitionState, *isr: int) -> PartitionState:
    return replace(state, isr=isr, partition_epoch=state.partition_epoch + 1)


def test_the_high_watermark_stands_still(tmp_path: Path) -> None:
    partition = led(tmp_path, _STATE)
    assert partition.high_watermark == 2
    alone = replace(grown(_STATE, 1), elr=(2,))
    partition.agreed(alone)
    assert partition.is_under_min_isr
    partition.follower_fetched(2, 5, 3, 0)
    partition.follower_fetched(3, 5, 3, 0)
    assert partition.high_watermark == 2
    partition.agreed(replace(grown(alone, 1, 3), elr=()))
    assert partition.high_watermark == 3


@pytest.mark.parametrize(
    "others", [{"elr": (2,)}, {"last_known": (LastKnown(2, LogEnd(4, 2), was_complete=True),)}]
)
def test_nor_does_it_move_as_long_as_others_are_remembered(
    tmp_path: Path, others: dict[str, tuple[int, ...]]
) -> None:
    """The controller asks for more than this broker knows of; or it will not for long."""
    partition = led(tmp_path, replace(_STATE, isr=(1, 3), **others))
    partition.follower_fetched(3, 5, 3, 0)
    assert partition.high_watermark == 0
    with pytest.raises(KafkaError) as refused:
        partition._check_enough_replicas()
    assert refused.value.code is ErrorCode.not_enough_replicas
    partition.agreed(grown(_STATE, 1, 3))
    assert partition.high_watermark == 3


def test_who_comes_back_to_a_leader_is_told_of_it(tmp_path: Path) -> None:
    """It has what they have lost: should it go, the controller is to wait for it."""
    wishes: list[IsrRequest] = []
    alone = replace(_STATE, isr=(1,), elr=(2,))
    partition = led(tmp_path, alone, lambda _, wish: wishes.append(wish))
    wishes.clear()
    assert partition.isr is not None
    partition.isr.refused()
    back = grown(replace(alone, elr=(), last_known=(LastKnown(2, LogEnd(4, 1), True),)), 1)
    partition.agreed(back)
    assert wishes == [IsrRequest(4, 8, ((1, -1),))]
    partition.refused(wishes[0])
    partition.drop_laggards()  # it is asked for again
    assert wishes[1:] == wishes[:1]
    partition.agreed(grown(replace(back, last_known=(LastKnown(2, LogEnd(4, 1), False),)), 1))
    partition.drop_laggards()
    assert len(wishes) == 2


def test_who_waits_is_told_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        partition = led(tmp_path, _STATE)
        waiting = partition.replicated()
        partition.agreed(replace(grown(_STATE, 1), elr=(2,)))
        with pytest.raises(KafkaError) as refused:
            await waiting
        assert refused.value.code is ErrorCode.not_enough_replicas_after_append

    asyncio.run(run())


def test_who_waits_for_all_is_told_when_all_have_it(tmp_path: Path) -> None:
    async def run() -> None:
        partition = led(tmp_path, _STATE)
        waiting = partition.replicated()
        for offset in (1, 2):
            partition.follower_fetched(2, 5, offset, 0)
            assert not waiting.done()
        partition.follower_fetched(2, 5, 3, 0)
        assert not waiting.done(), "one that is about to join has two of three"
        partition.follower_fetched(3, 5, 3, 0)
        await waiting

    asyncio.run(run())


def test_who_waits_is_told_when_another_leads(tmp_path: Path) -> None:
    async def run() -> None:
        partition = led(tmp_path, _STATE)
        waiting = partition.replicated()
        partition.close()
        assert waiting.done()
        with pytest.raises(KafkaError) as refused:
            await waiting
        assert refused.value.code is ErrorCode.not_leader_or_follower

    asyncio.run(run())


def test_what_is_not_committed_is_neither_read_nor_deleted(tmp_path: Path) -> None:
    partition = led(tmp_path, _STATE)
    for follower in (2, 3):
        partition.follower_fetched(follower, 5, 3, 0)
    append(partition.log, 2)
    assert (partition.high_watermark, partition.log_end_offset) == (3, 5)
    for offset, wanted in ((0, 1), (3, 0), (5, 0)):
        found = partition.read(offset, 10_000, 0, minimum_one_batch=True, may_block=True)
        assert len(found.slices) == wanted
        for each in found.slices:
            each.release()
    for offset in (4, 5):
        with pytest.raises(KafkaError) as refused:
            partition.delete_records_before(offset)
        assert refused.value.code is ErrorCode.offset_out_of_range
    partition.delete_records_before(-1)
    assert partition.log_start_offset == 3


def test_no_more_replicas_are_needed_than_there_are(tmp_path: Path) -> None:
    """As in Apache Kafka."""
    partition = led(tmp_path, replace(_STATE, replicas=(1, 2)), min_insync_replicas=3)
    assert not partition.is_under_min_isr
    partition.agreed(grown(replace(_STATE, replicas=(1, 2)), 1))
    assert partition.is_under_min_isr
