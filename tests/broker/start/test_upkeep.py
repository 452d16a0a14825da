"""What a broker does in the background about durability, and how cycles behave."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.fetches import TOPIC, Fetches
from broker.in_process import running
from drumlin.broker.loop import cycles as cycles_module
from drumlin.broker.loop.cycles import Cycles
from drumlin.broker.start import chores
from drumlin.broker.start.broker import Broker
from drumlin.coordination.groups.every_kind.messages import JoinRequest, SyncRequest
from drumlin.metadata.names import GROUP_METADATA
from drumlin.replication.partition import Partition
from drumlin.storage.directory.checkpoints import HIGH_WATERMARK, RECOVERY_POINT, decode_checkpoint
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.data.batches import batch
from rig.waiting import eventually

LIMIT_S = 20.0


@pytest.fixture(autouse=True)
def frequent_upkeep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chores, "_SECOND_MS", 20)


async def create(broker: Broker, name: str, **configs: str) -> Partition:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    await broker.metadata.create_topic(name, [[broker.node_id]], named)
    return broker.partitions.get(name, 0)


def append(partition: Partition, count: int = 1) -> None:
    for _ in range(count):
        partition.append_internal(bytearray(batch(b"x" * 100)), 0)


def checkpointed(directory: Path, name: str = RECOVERY_POINT) -> dict[tuple[str, int], int]:
    path = directory / name
    return decode_checkpoint(path.read_bytes()) if path.exists() else {}


def test_a_log_that_cannot_be_flushed_keeps_no_other_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = PartitionLog.flush

    def starve(log: PartitionLog, up_to_offset: int | None = None) -> None:
        if log.topic.startswith("starving"):
            raise MemoryError
        flush(log, up_to_offset)

    async def run() -> None:
        async with running(tmp_path) as broker:
            names = [f"{kind}-{number}" for number in range(4) for kind in ("starving", "other")]
            partitions = [await create(broker, name, flush_ms="1") for name in names]
            with monkeypatch.context() as patch:
                patch.setattr(PartitionLog, "flush", starve)
                for partition in partitions:
                    append(partition)
                await eventually(lambda: all(each.log.recovery_point for each in partitions[1::2]))
            await eventually(lambda: all(each.log.recovery_point for each in partitions))

    asyncio.run(run())


def test_records_are_flushed_after_flush_ms_and_the_recovery_point_is_written_down(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        settings = {"log_flush_offset_checkpoint_interval_ms": "20"}
        async with running(tmp_path, **settings) as broker:
            often = await create(broker, "often", flush_ms="1")
            never = await create(broker, "never")
            for count in (1, 2, 3):
                append(never)
                append(often)
                await eventually(lambda: often.log.recovery_point == often.log_end_offset)
                await eventually(lambda: checkpointed(tmp_path).get(("often", 0)) == count)  # noqa: B023
            assert never.log.recovery_point == 0
            assert checkpointed(tmp_path)["never", 0] == 0

    asyncio.run(run())


def test_high_watermarks_are_written_down(tmp_path: Path) -> None:
    async def run() -> None:
        settings = {"log_flush_offset_checkpoint_interval_ms": "20"}
        async with running(tmp_path, **settings) as broker:
            append(await create(broker, "t"), 2)
            await eventually(lambda: checkpointed(tmp_path, HIGH_WATERMARK).get(("t", 0)) == 2)
            append(broker.partitions.get("t", 0))

    asyncio.run(run())
    assert checkpointed(tmp_path, HIGH_WATERMARK) == {("t", 0): 3}


def test_the_brokers_flush_interval_applies_to_topics_without_their_own(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, log_flush_interval_ms="1") as broker:
            partition = await create(broker, "t")
            append(partition)
            await eventually(lambda: partition.log.recovery_point == 1)

    asyncio.run(run())


def test_rolled_segments_are_flushed(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            partition = await create(broker, "t", internal_segment_bytes="400")
            append(partition, 5)
            active = partition.log.segments.active
            assert active.base_offset > 0
            await eventually(lambda: partition.log.recovery_point >= active.base_offset)

    asyncio.run(run())


def test_a_log_that_cannot_be_flushed_does_not_keep_others_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = PartitionLog.flush

    def flush(log: PartitionLog, up_to_offset: int | None = None) -> None:
        if log.topic == "bad":
            raise KafkaError(ErrorCode.kafka_storage_error, "it was deleted")
        original(log, up_to_offset)

    async def run() -> None:
        async with running(tmp_path) as broker:
            good = [await create(broker, f"good-{number}", flush_ms="1") for number in range(4)]
            bad = await create(broker, "bad", flush_ms="1")
            with monkeypatch.context() as patch:
                patch.setattr(PartitionLog, "flush", flush)
                for partition in (bad, *good):
                    append(partition)
                await eventually(lambda: all(each.log.recovery_point == 1 for each in good))

    asyncio.run(run())
    assert "flush failed" not in caplog.text


def test_group_metadata_that_is_too_large_for_the_log_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, group_initial_rebalance_delay_ms="0") as broker:
            await broker.groups.find_partition("g")
            large = bytes(700_000)
            request = JoinRequest(
                "", None, "c", "/h", 1000, 10_000, "consumer", (("range", large),), False
            )
            joined = await broker.groups.join("g", request)
            assert joined.error is ErrorCode.none
            me, generation = joined.member_id, joined.generation_id
            sync = SyncRequest(me, None, generation, "consumer", "range", [(me, large)])
            assert (await broker.groups.sync("g", sync)).error is ErrorCode.unknown_server_error
            ends = [
                each.log_end_offset for each in broker.partitions if each.topic == GROUP_METADATA
            ]
            assert sum(ends) <= 1  # the empty group at most

    asyncio.run(run())


def test_a_cycle_without_an_interval_runs_once() -> None:
    async def run() -> None:
        calls = []
        cycles = Cycles()
        cycles.every(0, "once", lambda: calls.append(1))
        for _ in range(10):
            await asyncio.sleep(0)
        await cycles.stop()
        assert calls == [1]

    asyncio.run(run())


def test_a_cycle_that_fails_is_tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long its interval is, and if it is to run once."""
    monkeypatch.setattr(cycles_module, "_AGAIN_S", 0.001)

    async def run(interval_ms: int) -> None:
        calls: list[int] = []

        def work() -> None:
            calls.append(1)
            if len(calls) < 4:
                raise MemoryError

        cycles = Cycles()
        cycles.every(interval_ms, "failing", work, first_after_ms=0)
        await eventually(lambda: len(calls) == 4)
        for _ in range(10):
            await asyncio.sleep(0)
        await cycles.stop()
        assert len(calls) == 4

    for interval_ms in (0, 3_600_000):
        asyncio.run(run(interval_ms))


def test_retention_is_told_to_those_who_watch(tmp_path: Path) -> None:
    """A session's consumer hears of a new log start offset with its next fetch."""

    async def run() -> None:
        often = {"log_retention_check_interval_ms": "20", "log_initial_task_delay_ms": "20"}
        async with running(tmp_path, **often) as broker:
            fetches = Fetches(broker)
            partition = await create(broker, TOPIC, retention_bytes="1", segment_bytes="1048576")
            append(partition)
            named = [fetches.topic(TOPIC, fetches.part(0, 1))]
            frame = fetches.frame_of(12, named, session_epoch=0)
            session_id = (await fetches.response(12, frame)).session_id
            partition.log.roll(broker.clock.wall_ms())
            append(partition)
            await eventually(lambda: partition.log_start_offset == 2)
            for epoch, told in ((1, [2]), (2, [])):
                named = [fetches.topic(TOPIC, fetches.part(0, 2))] if epoch == 1 else []
                frame = fetches.frame_of(12, named, session_id=session_id, session_epoch=epoch)
                response = await fetches.response(12, frame)
                answers = [part for topic in response.responses for part in topic.partitions]
                assert [answer.log_start_offset for answer in answers] == told

    asyncio.run(run())
