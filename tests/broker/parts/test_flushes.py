"""Group commit: requests that wait at the same time share an fsync, and none shares an earlier."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drumlin.broker.parts.flushes import Flushes
from drumlin.replication.partition import Partition
from drumlin.wire.error_codes import ErrorCode, KafkaError


class _Disk:
    """Its fsyncs end when the test says so."""

    def __init__(self) -> None:
        self.running: list[asyncio.Future[None]] = []

    async def blocking(self, flush: Callable[..., Any]) -> None:
        self.running.append(asyncio.get_running_loop().create_future())
        await self.running[-1]


def partition() -> Partition:
    """One of which only its log's `flush` is asked for; each is another."""

    class Hashable(SimpleNamespace):
        __hash__ = object.__hash__  # type: ignore[assignment]

    return cast(Partition, Hashable(log=SimpleNamespace(flush=None)))


def run(test: Callable[[Flushes, _Disk], Any]) -> None:
    disk = _Disk()
    asyncio.run(asyncio.wait_for(test(Flushes(disk.blocking), disk), 20))


def test_many_requests_share_one() -> None:
    async def test(flushes: Flushes, disk: _Disk) -> None:
        one = partition()
        first = [flushes.flush(one) for _ in range(10)]
        await asyncio.sleep(0)
        later = [flushes.flush(one) for _ in range(100)]
        await asyncio.sleep(0)
        assert len(disk.running) == 1
        disk.running[0].set_result(None)
        await asyncio.gather(*first)
        assert not any(each.done() for each in later), "their batches may be newer than that fsync"
        await asyncio.sleep(0)
        assert len(disk.running) == 2
        disk.running[1].set_result(None)
        await asyncio.gather(*later)
        await asyncio.sleep(0)
        assert len(disk.running) == 2, "110 requests, two fsyncs"

    run(test)


def test_partitions_do_not_wait_for_each_other() -> None:
    async def test(flushes: Flushes, disk: _Disk) -> None:
        waiting = [flushes.flush(partition()) for _ in range(3)]
        await asyncio.sleep(0)
        assert len(disk.running) == 3
        disk.running[1].set_result(None)
        await waiting[1]
        assert not waiting[0].done()
        for each in (disk.running[0], disk.running[2]):
            each.set_result(None)
        await asyncio.gather(*waiting)

    run(test)


def test_a_failure_is_told_to_all_that_share_it_and_to_no_other() -> None:
    async def test(flushes: Flushes, disk: _Disk) -> None:
        one = partition()
        failing = [flushes.flush(one) for _ in range(3)]
        await asyncio.sleep(0)
        later = flushes.flush(one)
        disk.running[0].set_exception(OSError("a broken disk"))
        for each in failing:
            with pytest.raises(OSError, match="a broken disk"):
                await each
        await asyncio.sleep(0)
        disk.running[1].set_result(None)
        await later

    run(test)


def test_nobody_need_look_at_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    """A decision that no client waits for, as of a deadline, is not looked at again."""

    async def test(flushes: Flushes, _: _Disk) -> None:
        replicated = asyncio.get_running_loop().create_future()
        one = partition()
        vars(one).update(awaits_replicas=True, is_flush_due=False, replicated=lambda: replicated)
        flushes.confirm(one)
        replicated.set_exception(KafkaError(ErrorCode.not_enough_replicas_after_append))
        replicated.exception()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gc.collect()

    run(test)
    assert not caplog.records
