"""What is told of a batch, or of a deletion, that is in the log and not everywhere else yet."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from drumlin.broker.start.broker import Broker
from drumlin.metadata.image import BrokerState
from drumlin.replication.partition import Partition
from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.waiting import eventually

_LONG_MS = 60_000


def told(port: int, timeout_ms: int) -> str:
    """Produce with acks=all; the error of the answer."""
    topic = {"name": "t", "partition_data": [{"index": 0, "records": batch(b"x")}]}
    with RawClient(port, timeout_s=60) as client:
        answer = client.ask("produce", 9, acks=-1, timeout=timeout_ms, topic_data=[topic])
    (response,) = render(answer)["responses"]
    return str(response["partition_responses"][0]["error_code"])


def produce(
    path: Path,
    configs: dict[str, str],
    timeout_ms: int,
    before: Callable[[Broker, Partition], None],
    meanwhile: Callable[[Partition], Awaitable[None]] | None = None,
) -> str:
    """What is told of a batch for a broker that was prepared by `before`."""

    async def run() -> str:
        async with running(path) as broker:
            await broker.metadata.create_topic("t", [[broker.node_id]], configs)
            partition = broker.partitions.get("t", 0)
            before(broker, partition)
            port = broker.listeners[0].port
            answer = asyncio.create_task(asyncio.to_thread(told, port, timeout_ms))
            if meanwhile is not None:
                await eventually(lambda: partition.log_end_offset == 1)
                await meanwhile(partition)
            return await answer

    return asyncio.run(run())


def share(broker: Broker, partition: Partition, isr: tuple[int, ...] = (1, 2)) -> None:
    """As if broker 2 were in sync, which never fetches of its own accord."""
    (state,) = broker.metadata.image.topics["t"].partitions
    epoch = partition.leader_epoch + 1
    partition.begin_leader_epoch(replace(state, leader_epoch=epoch, replicas=(1, 2), isr=isr))


def test_a_flush_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def before(_: Broker, partition: Partition) -> None:
        monkeypatch.setattr(type(partition.log.durability), "sync", fail)

    configs = {"flush.messages": "1"}
    assert produce(tmp_path, configs, _LONG_MS, before) == "kafka_storage_error"


def test_replicas_that_do_not_confirm_in_time(tmp_path: Path) -> None:
    assert produce(tmp_path, {}, 0, share) == "request_timed_out"


def test_too_few_replicas(tmp_path: Path) -> None:
    """Then nothing is written at all."""
    partitions: list[Partition] = []

    def before(broker: Broker, partition: Partition) -> None:
        share(broker, partition, isr=(1,))
        partitions.append(partition)

    configs = {"min.insync.replicas": "2"}
    assert produce(tmp_path, configs, _LONG_MS, before) == "not_enough_replicas"
    assert partitions[0].log_end_offset == 0


def test_too_few_replicas_by_then(tmp_path: Path) -> None:
    async def lose_the_follower(partition: Partition) -> None:
        assert partition.isr is not None
        state = partition.isr.state
        grown = replace(state, isr=(1,), partition_epoch=state.partition_epoch + 1)
        partition.agreed(grown)

    configs = {"min.insync.replicas": "2"}
    refusal = produce(tmp_path, configs, _LONG_MS, share, lose_the_follower)
    assert refusal == "not_enough_replicas_after_append"


def test_replicas_that_confirm(tmp_path: Path) -> None:
    def before(broker: Broker, partition: Partition) -> None:
        broker.metadata.image.put_broker(BrokerState(2, None, (), 0))
        share(broker, partition)

    async def fetch(partition: Partition) -> None:
        assert partition.high_watermark == 0
        partition.follower_fetched(2, 0, 1, 0)

    assert produce(tmp_path, {}, _LONG_MS, before, fetch) == "none"


def deleted(port: int, timeout_ms: int) -> tuple[str, int]:
    """Delete the first record: the error of the answer, and from where on there are records."""
    topic = {"name": "t", "partitions": [{"partition_index": 0, "offset": 1}]}
    with RawClient(port, timeout_s=60) as client:
        answer = client.ask("delete_records", 2, topics=[topic], timeout=timeout_ms)
    (response,) = render(answer)["topics"]
    (of_partition,) = response["partitions"]
    return str(of_partition["error_code"]), int(of_partition["low_watermark"])


def test_a_deletion_is_told_when_all_replicas_have_made_it(tmp_path: Path) -> None:
    """Or the records would be there again after an election."""

    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[broker.node_id]], {})
            partition, port = broker.partitions.get("t", 0), broker.listeners[0].port
            assert await asyncio.to_thread(told, port, _LONG_MS) == "none"
            broker.metadata.image.put_broker(BrokerState(2, None, (), 0))
            share(broker, partition)
            partition.follower_fetched(2, 0, 1, 0)
            assert await asyncio.to_thread(deleted, port, 0) == ("request_timed_out", -1)
            waiting = asyncio.create_task(asyncio.to_thread(deleted, port, _LONG_MS))
            await eventually(lambda: broker.server._connections)
            assert not waiting.done()
            partition.follower_fetched(2, 0, 1, 1)
            assert await waiting == ("none", 1)

    asyncio.run(run())
