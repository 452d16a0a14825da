"""Fetches whose peer goes, or that fail, in the midst of it: nothing of them is left."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.fetch_sessions.test_fetch_sessions import Reader, append
from broker.fetches import TOPIC, Fetches, with_broker
from broker.fetching.test_fetch import Waiting
from drumlin.broker.fetch_sessions.partition_read import PartitionRead
from drumlin.storage.segment.file_slice import FileSlice
from drumlin.wire.error_codes import ErrorCode
from rig.time.turn_lengths import single_steps
from storage.samples import NOW_MS, prepared

_PARTITIONS = 200


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """What is in a cycle would be let go some time later."""
    gc.disable()
    yield
    gc.enable()


class Thread:
    """Holds up the thread of a fetch."""

    def __init__(self) -> None:
        self.is_there, self.may_go_on = threading.Event(), threading.Event()
        self.leases = -1

    def wait(self) -> None:
        self.is_there.set()
        assert self.may_go_on.wait(20)


def _leases(fetches: Fetches) -> int:
    return sum(
        len(partition.log.segments.active.log_file._leases)
        for partition in fetches.broker.partitions
    )


async def _until(condition: Any) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("in vain")


@pytest.mark.parametrize("epoch", [-1, 0])
@pytest.mark.parametrize("count", [3, _PARTITIONS])
@pytest.mark.parametrize("stage", ["finding", "reading"])
def test_a_peer_goes_while_a_thread_reads(
    tmp_path: Path, epoch: int, count: int, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = Thread()
    look = PartitionRead.look

    def prefetch(piece: FileSlice) -> None:
        thread.wait()
        assert piece._file is not None
        thread.leases = len(piece._file._leases)

    def look_later(reading: PartitionRead, partition: Any, wanted: Any, *, may_block: bool) -> Any:
        if partition.index < count - 1 or stage == "reading":
            return look(reading, partition, wanted, may_block=may_block)
        if not may_block:
            raise BlockingIOError
        answer = look(reading, partition, wanted, may_block=True)
        thread.wait()
        thread.leases = len(partition.log.segments.active.log_file._leases)
        return answer

    async def scenario(fetches: Fetches) -> None:
        append(fetches, *range(count))
        monkeypatch.setattr(PartitionRead, "look", look_later)
        monkeypatch.setattr(FileSlice, "is_resident", lambda _: False)
        monkeypatch.setattr(FileSlice, "keep", lambda _: False)
        monkeypatch.setattr(FileSlice, "prefetch", prefetch)
        topic = fetches.topic(TOPIC, *[fetches.part(each, 0) for each in range(count)])
        waiting = Waiting(fetches.start(fetches.frame_of(12, [topic], session_epoch=epoch)))
        await _until(thread.is_there.is_set)
        waiting.later.cancel()
        await asyncio.sleep(0)
        thread.may_go_on.set()
        await _until(lambda: thread.leases >= 0)
        assert thread.leases == 1  # what a thread reads is not closed under its hands
        await _until(lambda: _leases(fetches) == 0)
        assert len(fetches.broker.fetch_sessions) == 0
        await _until(lambda: not any(len(each.waiting) for each in fetches.broker.partitions))
        assert waiting.answers == []

    with_broker(scenario, tmp_path, partitions=_PARTITIONS)


@pytest.mark.parametrize("epoch", [-1, 0])
@pytest.mark.parametrize("count", [3, _PARTITIONS])
def test_what_fails_keeps_no_file_open(
    tmp_path: Path, epoch: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = PartitionRead.look

    def fail_at_last(reading: PartitionRead, partition: Any, *rest: Any, **more: Any) -> Any:
        if partition.index == count - 1:
            raise ZeroDivisionError
        return look(reading, partition, *rest, **more)

    async def scenario(fetches: Fetches) -> None:
        append(fetches, *range(count))
        monkeypatch.setattr(PartitionRead, "look", fail_at_last)
        single_steps(monkeypatch)
        topic = fetches.topic(TOPIC, *[fetches.part(each, 0) for each in range(count)])
        response = await fetches.response(12, fetches.frame_of(12, [topic], session_epoch=epoch))
        assert response.error_code is ErrorCode.unknown_server_error
        await asyncio.sleep(0)
        assert _leases(fetches) == 0
        assert len(fetches.broker.fetch_sessions) == 0

    with_broker(scenario, tmp_path, partitions=_PARTITIONS)


def test_a_session_ends_with_a_request_that_nobody_waits_for(tmp_path: Path) -> None:
    """What it found new was sent to no client, and would not be found again."""

    async def scenario(fetches: Fetches) -> None:
        reader = Reader(fetches, 0, 1)
        await reader.fetch()
        partition = fetches.broker.partitions.get(TOPIC, 1)
        partition.append_as_leader(prepared(), 1, NOW_MS)
        at_the_end = fetches.part(1, partition.high_watermark)
        waiting = reader.begin_to_wait(at_the_end)  # another high watermark is nothing to read
        waiting.later.cancel()
        assert len(partition.waiting) == 0
        reader.epoch += 1
        await reader.fetch()
        assert reader.response.error_code is ErrorCode.fetch_session_id_not_found

    with_broker(scenario, tmp_path, partitions=2)
