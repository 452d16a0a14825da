"""A log dir comes back with fewer records than consumers have read: leader epochs tell them."""

from __future__ import annotations

import asyncio
import errno
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.hosting.test_hosting import code_of
from broker.in_process import running
from drumlin.broker.start.broker import Broker
from drumlin.metadata.embedded.database import Database
from drumlin.storage.log.leader_epochs import EpochEnd
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.waiting import eventually
from storage.samples import prepared

pytestmark = pytest.mark.usefixtures("frequent_probes")

LOG = "0" * 20 + ".log"


def append(broker: Broker, index: int, count: int) -> None:
    for _ in range(count):
        partition = broker.partitions.get("t", index)
        partition.append_as_leader(prepared(), 1, broker.clock.wall_ms())


def epochs(broker: Broker) -> list[int]:
    """The leader epochs that clients see, and those of the partitions."""
    told = [each.leader_epoch for each in broker.metadata.image.topics["t"].partitions]
    believed = [broker.partitions.get("t", index).leader_epoch for index in range(len(told))]
    assert told == believed
    return told


def check_lost(broker: Broker, index: int, end_offset: int) -> None:
    """A consumer that has read on in epoch 0 learns where that ended."""
    partition = broker.partitions.get("t", index)
    with pytest.raises(KafkaError) as refused:
        partition.check_leader_epoch(0)
    assert refused.value.code is ErrorCode.fenced_leader_epoch
    assert partition.log.end_offset_for_epoch(0) == EpochEnd(0, end_offset)
    append(broker, index, 1)
    assert partition.log.end_offset_for_epoch(0) == EpochEnd(0, end_offset)
    assert partition.log.leader_epochs.epoch_for(end_offset) == 1


async def fail_until(
    broker: Broker, index: int, code: int, meanwhile: Callable[[], object] = lambda: None
) -> None:
    """Take a partition's dir offline, and wait until it is back."""
    directory = broker.partitions.get("t", index).log.log_directory
    directory.fail(OSError(code, "test"), "test")
    meanwhile()
    await eventually(lambda: directory.is_online)


def test_a_device_that_failed_and_lost_its_last_writes(tmp_path: Path) -> None:
    dirs = tmp_path / "a", tmp_path / "b"

    async def run() -> None:
        async with running(*dirs) as broker:
            await broker.metadata.create_topic("t", [[1], [1]], {})
            for index in (0, 1):
                append(broker, index, 3)
            log = broker.partitions.get("t", 1).log
            path = log.directory / LOG

            def lose() -> None:
                path.write_bytes(path.read_bytes()[: -log.size_bytes // 3])

            await fail_until(broker, 1, errno.EIO, lose)
            assert log.log_end_offset == 2
            assert epochs(broker) == [0, 1]
            check_lost(broker, 1, 2)
        async with running(*dirs) as broker:
            assert epochs(broker) == [0, 1]

    asyncio.run(run())


def test_a_full_device_has_lost_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[1]], {})
            append(broker, 0, 3)
            await fail_until(broker, 0, errno.ENOSPC)
            assert epochs(broker) == [0]

    asyncio.run(run())


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_dir_that_was_missing_at_the_start(tmp_path: Path, is_replaced: bool) -> None:
    """It returns as an unclean stop has left it, or is a new and empty disk."""
    dirs = tmp_path / "a", tmp_path / "b"

    async def run() -> None:
        async with running(*dirs) as broker:
            await broker.metadata.create_topic("t", [[1], [1]], {})
            for index in (0, 1):
                append(broker, index, 3)
            missing = broker.partitions.get("t", 1).log.log_directory
            assert missing.path == str(dirs[1])
        (dirs[1] / ".kafka_cleanshutdown").unlink()
        path = dirs[1] / "t-1" / LOG
        path.write_bytes(path.read_bytes()[:-1])
        (dirs[1] / "recovery-point-offset-checkpoint").unlink()
        dirs[1].rename(tmp_path / "elsewhere")
        dirs[1].write_text("a broken disk")
        async with running(*dirs) as broker:
            assert code_of(broker, "t", 1) is ErrorCode.kafka_storage_error
            dirs[1].unlink()
            if not is_replaced:
                (tmp_path / "elsewhere").rename(dirs[1])
            await eventually(lambda: code_of(broker, "t", 1) is ErrorCode.none)
            assert epochs(broker) == [0, 1]
            if is_replaced:
                assert broker.partitions.get("t", 1).log_end_offset == 0
            else:
                check_lost(broker, 1, 2)

    asyncio.run(run())


def test_a_log_that_is_gone_at_the_start(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[1], [1]], {})
            append(broker, 1, 3)
        shutil.rmtree(tmp_path / "t-1")
        async with running(tmp_path) as broker:
            assert epochs(broker) == [0, 1]
            append(broker, 1, 1)

    asyncio.run(run())


def test_an_end_that_is_gone_after_a_clean_stop(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[1], [1]], {})
            for index in (0, 1):
                append(broker, index, 3)
        path = tmp_path / "t-1" / LOG
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 3 * 2])
        async with running(tmp_path) as broker:
            assert epochs(broker) == [0, 1]
            assert broker.partitions.get("t", 1).log_end_offset == 3
            check_lost(broker, 1, 2)
        async with running(tmp_path) as broker:
            assert epochs(broker) == [0, 1]
            assert broker.partitions.get("t", 1).log_end_offset == 4
            assert broker.partitions.get("t", 1).log.end_offset_for_epoch(0) == EpochEnd(0, 2)

    asyncio.run(run())


def test_a_device_that_failed_and_lost_what_was_flushed(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[1]], {})
            append(broker, 0, 3)
            log = broker.partitions.get("t", 0).log
            log.flush()
            path = log.directory / LOG

            def lose() -> None:
                path.write_bytes(path.read_bytes()[: -log.size_bytes // 3])

            await fail_until(broker, 0, errno.EIO, lose)
            assert epochs(broker) == [1]
            assert log.log_end_offset == 3
            check_lost(broker, 0, 2)

    asyncio.run(run())


def test_nothing_is_served_before_the_new_epoch_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0
    original = Database.execute_durably

    def fail_at_first(database: Database, statements: list[tuple[str, object]]) -> None:
        nonlocal attempts
        if any("leader_epoch" in sql for sql, _ in statements):
            attempts += 1
            assert not broker.logs.directories[0].is_online
            if attempts == 1:
                raise sqlite3.OperationalError("disk I/O error")
        original(database, statements)  # type: ignore[arg-type]

    async def run() -> None:
        nonlocal broker
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[1]], {})
            append(broker, 0, 3)
            monkeypatch.setattr(Database, "execute_durably", fail_at_first)
            await fail_until(broker, 0, errno.EIO)
            assert attempts == 2
            assert epochs(broker) == [1]

    broker: Broker
    asyncio.run(run())
