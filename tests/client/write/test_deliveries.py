"""Batches of an append that are handed over together: nothing of that is to be seen outside."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from drumlin.client.loops.loop_thread import LoopThread
from drumlin.client.write.deliveries import Deliveries, DeliveryRules
from drumlin.client.write.partition_sender import Batch
from drumlin.client.write.producer import DeliveryMode
from drumlin.peer.produce import Produced
from drumlin.records.plain.record import Record, encode_batch
from rig.waiting import wait_until


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread("deliveries")
    yield thread
    thread.stop()


TIMEOUT_MS = 100


class Written:
    """Takes every batch, and notes how much of its time had gone by then."""

    def __init__(self) -> None:
        self.elapsed_s: list[float] = []

    async def partitions(self, topic: str, at_least: int = 0) -> list[int]:
        return [0]

    def put(self, topic: str, partition: int, mode: DeliveryMode, batch: Batch) -> None:
        self.elapsed_s.append(TIMEOUT_MS / 1000 - batch.deadline.remaining_s)
        batch.done.set_result(Produced(0, -1, 0))


def batch() -> memoryview:
    return memoryview(encode_batch([Record(0, 1, None, b"v")]))


def test_time_that_a_batch_is_held_is_none_of_its_own(thread: LoopThread) -> None:
    """Rows may come minutes after those before them: these were not even tried until then."""
    target = Written()
    deliveries = Deliveries(thread, target, DeliveryRules(timeout_ms=TIMEOUT_MS))
    deliveries.send("t", 0, batch())
    held_since = time.monotonic()
    wait_until(lambda: time.monotonic() > held_since + 0.1, "the time of a delivery")
    handed_over_at = time.monotonic()
    deliveries.finish()
    assert target.elapsed_s[0] <= time.monotonic() - handed_over_at


def test_what_is_held_is_dropped_after_an_error(thread: LoopThread) -> None:
    """Rows after it were refused, say: a program that writes all again has fewer of them twice."""
    target = Written()
    deliveries = Deliveries(thread, target, DeliveryRules())
    deliveries.send("t", 0, batch())
    deliveries.send("t", 1, batch())
    assert deliveries.settle() == 0
    assert target.elapsed_s == []
    assert deliveries.finish() == {}
