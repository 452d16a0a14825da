"""When the answer to `acks=all` leaves: counted in turns of the loop."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from broker.fetches import peer
from broker.in_process import running
from drumlin.broker.loop.later import Later
from drumlin.broker.router import Router
from drumlin.broker.start.broker import Broker
from drumlin.metadata.image import BrokerState
from drumlin.replication.partition import Partition
from drumlin.wire.messages import encode_request, parse_response
from rig.data.batches import batch
from rig.data.messages import build

_LONG_MS = 60_000


async def _shared(broker: Broker, topic: str) -> Partition:
    """A partition of which broker 2 is in sync, which never fetches of its own accord."""
    await broker.metadata.create_topic(topic, [[broker.node_id]], {})
    broker.metadata.image.put_broker(BrokerState(2, None, (), 0))
    partition = broker.partitions.get(topic, 0)
    (state,) = broker.metadata.image.topics[topic].partitions
    epoch = partition.leader_epoch + 1
    partition.begin_leader_epoch(replace(state, leader_epoch=epoch, replicas=(1, 2), isr=(1, 2)))
    return partition


def _produce(*topics: str, timeout_ms: int = _LONG_MS) -> memoryview:
    data = [
        {"name": each, "partition_data": [{"index": 0, "records": batch(b"x")}]} for each in topics
    ]
    fields = {"acks": -1, "timeout": timeout_ms, "topic_data": data}
    frame = b"".join(encode_request("produce", 9, 1, "c", build("produce", 9, fields)))
    return memoryview(bytearray(frame))[4:]


def _started(broker: Broker, frame: memoryview) -> tuple[Later[Any], list[Any]]:
    """An answer that is awaited, and where it comes."""
    answers: list[Any] = []
    later = Router(broker).dispatch(peer(), frame)
    assert isinstance(later, Later)
    later.when_settled(lambda each: answers.append(each.result()))
    return later, answers


async def _appended(partitions: list[Partition]) -> None:
    """Wait for the record in each: where the machine is busy that takes more than a turn."""
    async with asyncio.timeout(60):
        while any(each.log_end_offset < 1 for each in partitions):  # noqa: ASYNC110
            await asyncio.sleep(0)


def _codes(parts: list[Any]) -> list[str]:
    _, response = parse_response("produce", 9, b"".join(map(bytes, parts))[4:])
    return [each.partition_responses[0].error_code.name for each in response.responses]


def test_it_leaves_in_the_turn_in_which_the_high_watermark_passes(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            partition = await _shared(broker, "t")
            tasks = asyncio.all_tasks()
            later, answers = _started(broker, _produce("t"))
            assert asyncio.all_tasks() == tasks, "it needs no task"
            assert later.lets_pass
            await asyncio.sleep(0)
            partition.follower_fetched(2, 0, 1, 0)
            assert not answers, "not in the midst of what changes the partition"
            broker.wakeups.finish()  # as the follower's connection does, in the same turn
            assert _codes(answers[0]) == ["none"]

    asyncio.run(run())


def test_the_last_of_its_partitions_brings_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            partitions = [await _shared(broker, each) for each in "ab"]
            _, answers = _started(broker, _produce("a", "b"))
            await _appended(partitions)
            for partition in partitions:
                broker.wakeups.finish()
                assert not answers
                partition.follower_fetched(2, 0, 1, 0)
            broker.wakeups.finish()
            assert _codes(answers[0]) == ["none", "none"]

    asyncio.run(run())


def test_it_comes_without_a_connection_in_the_next_turn(tmp_path: Path) -> None:
    """The partition may be moved by something else than a request: by new metadata."""

    async def run() -> None:
        async with running(tmp_path) as broker:
            partition = await _shared(broker, "t")
            _, answers = _started(broker, _produce("t"))
            partition.close()
            await asyncio.sleep(0)
            assert _codes(answers[0]) == ["not_leader_or_follower"]

    asyncio.run(run())


def test_of_two_partitions_only_the_late_one_times_out(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            partitions = [await _shared(broker, each) for each in "ab"]
            _, answers = _started(broker, _produce("a", "b", timeout_ms=0))
            await _appended(partitions)
            partitions[0].follower_fetched(2, 0, 1, 0)
            async with asyncio.timeout(60):
                while not answers:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            assert _codes(answers[0]) == ["none", "request_timed_out"]
            partitions[1].follower_fetched(2, 0, 1, 0)  # too late
            broker.wakeups.finish()
            assert len(answers) == 1

    asyncio.run(run())


def test_a_peer_that_is_gone_is_not_answered(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            partition = await _shared(broker, "t")
            later, answers = _started(broker, _produce("t"))
            later.cancel()
            partition.follower_fetched(2, 0, 1, 0)
            broker.wakeups.finish()
            assert not answers
            assert partition.high_watermark == 1, "what it appended stays"

    asyncio.run(run())
