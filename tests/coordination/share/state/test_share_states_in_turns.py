"""What is written of very many share states, without a request for it, gives way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordination.groups.share.share_world import ShareWorld, run
from drumlin.coordination.share.state.shard import ShareShard
from drumlin.coordination.share.state.state import ShareState, StateBatch
from drumlin.records.batch.batch import parse_header
from drumlin.wire.error_codes import KafkaError
from rig.time.turn_lengths import single_steps

_COUNT = 1_000
_CALM_MS = 300_000
_BATCHES = 2_000


async def _with_states(world: ShareWorld) -> ShareShard:
    """A topic of which a group has a state for each partition; where they are kept."""
    world.state_log.partition_count = 1
    await world.restart()
    topic = world.topics.put("t", _COUNT)
    for partition in range(_COUNT):
        await world.states.initialize("g", topic.topic_id, partition, 1, 0)
    shard = world.states._partitions.shard(0)
    assert len(shard.states) == _COUNT
    return shard


async def _begun(shard: ShareShard) -> None:
    async with asyncio.timeout(20):
        while len(shard.states) == _COUNT:  # noqa: ASYNC110  in the very next turn
            await asyncio.sleep(0)


def _play(
    monkeypatch: pytest.MonkeyPatch,
    scenario: Callable[[ShareWorld, ShareShard, Callable[[], int]], Awaitable[None]],
) -> None:
    """`scenario` is told how many records are written in the turn that writes most of them."""

    async def main(world: ShareWorld) -> None:
        shard = await _with_states(world)
        written = most = 0
        append = world.state_log.append
        before_turn = 0

        def counted(partition: int, batch: bytearray, *how: Any) -> None:
            nonlocal written, most
            written += parse_header(batch).record_count
            most = max(most, written - before_turn)
            append(partition, batch, *how)

        async def count_turns() -> None:
            nonlocal before_turn
            while True:
                before_turn = written
                await asyncio.sleep(0)

        monkeypatch.setattr(world.state_log, "append", counted)
        counting = asyncio.create_task(count_turns())
        single_steps(monkeypatch)
        await scenario(world, shard, lambda: most)
        counting.cancel()

    run(main)


def test_states_in_a_deleted_topic_go_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: ShareWorld, shard: ShareShard, most: Callable[[], int]) -> None:
        topic = world.topics.by_name("t")
        assert topic is not None
        gone = list(shard.states)[-1]
        world.topics.remove("t")
        world.states.topic_deleted("t", topic.topic_id)
        await _begun(shard)
        del shard.states[gone]  # another request was quicker
        await world.until(lambda: not shard.states)
        assert 0 < most() <= 50
        assert world.states_now() <= {gone}

    _play(monkeypatch, scenario)


def test_cold_states_are_written_again_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: ShareWorld, shard: ShareShard, most: Callable[[], int]) -> None:
        world.clock.advance_ms(_CALM_MS)
        await world.states.snapshot_cold_states()
        assert 0 < most() <= 50
        assert {each.snapshot_epoch for each in shard.states.values()} == {1}
        key = next(iter(shard.states))
        await world.states.write(*key, ShareState(1, -1, 5, 0))
        await world.states.snapshot_cold_states()
        assert {each.snapshot_epoch for each in shard.states.values()} == {1}

    _play(monkeypatch, scenario)


def test_who_leads_no_more_writes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: ShareWorld, shard: ShareShard, _: Callable[[], int]) -> None:
        topic = world.topics.by_name("t")
        assert topic is not None
        world.topics.remove("t")
        world.states.topic_deleted("t", topic.topic_id)
        await _begun(shard)
        log = world.state_log
        world.states.resign(0)
        written = log.end_offset(0)
        assert len(shard.states) > 0
        await world.until(lambda: not shard.states)  # nor is anything kept, which goes in turns
        assert log.end_offset(0) == written

    _play(monkeypatch, scenario)


def test_a_state_of_very_many_batches_is_written_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What others write meanwhile, even of the same state, is not lost; and the log says both."""

    async def scenario(world: ShareWorld) -> None:
        world.state_log.partition_count = 1
        await world.restart()
        topic_id = world.topics.put("t", 1).topic_id
        await world.states.initialize("g", topic_id, 0, 1, 0)
        many = tuple(StateBatch(2 * each, 2 * each, 2, 1) for each in range(_BATCHES))
        between = StateBatch(7, 7, 0, 3)
        single_steps(monkeypatch)
        writing = asyncio.create_task(
            world.states.write("g", topic_id, 0, ShareState(1, 0, -1, 0, many))
        )
        count = 0
        while not writing.done():
            if count == _BATCHES:
                await world.states.write("g", topic_id, 0, ShareState(1, 0, -1, 0, (between,)))
            await asyncio.sleep(0)
            count += 1
        await writing
        assert count > 2 * _BATCHES, "no one else had a turn"
        state = await world.states.read("g", topic_id, 0)
        assert state.batches == tuple(sorted((*many, between)))
        await world.restart()
        assert await world.states.read("g", topic_id, 0) == state

    run(scenario)


def test_a_large_write_to_a_state_that_is_deleted_meanwhile_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.state_log.partition_count = 1
        await world.restart()
        topic_id = world.topics.put("t", 1).topic_id
        await world.states.initialize("g", topic_id, 0, 1, 0)
        many = tuple(StateBatch(2 * each, 2 * each, 2, 1) for each in range(_BATCHES))
        single_steps(monkeypatch)
        writing = asyncio.create_task(
            world.states.write("g", topic_id, 0, ShareState(1, 0, -1, 0, many))
        )
        for _ in range(100):
            await asyncio.sleep(0)
        await world.states.delete("g", topic_id, 0)
        with pytest.raises(KafkaError, match="never initialised"):
            await writing
        assert not world.states_now()

    run(scenario)
