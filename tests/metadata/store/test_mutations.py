"""Mutations that go on although whoever asked for them has given up; and who hears of them."""

from __future__ import annotations

import asyncio
import gc

import pytest

from drumlin.metadata.store.changes import BrokersChanged, Change
from drumlin.metadata.store.mutations import Listeners, uncancelled


def test_a_mutation_that_nobody_awaits_any_more_ends_and_tells_its_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asyncio.run(_give_up())
    gc.collect()
    assert "caller was cancelled has failed: OSError('the disk is full')" in caplog.text
    assert "never retrieved" not in caplog.text


async def _give_up() -> None:
    may_end, has_ended = asyncio.Event(), asyncio.Event()

    @uncancelled
    async def mutation() -> None:
        await may_end.wait()
        has_ended.set()
        raise OSError("the disk is full")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await mutation()
    may_end.set()
    for _ in range(5):  # it ends, and what follows from that comes, in later turns
        await asyncio.sleep(0)
    assert has_ended.is_set()


def test_a_listener_that_fails_keeps_no_other_from_hearing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[Change] = []

    def fail(_: Change) -> None:
        raise OSError("the disk is full")

    async def tell() -> None:
        listeners = Listeners()
        listeners.add(fail)
        listeners.add(told.append)
        for _ in range(2):
            async with asyncio.timeout(20):
                await listeners.report(BrokersChanged())

    asyncio.run(tell())
    assert told == [BrokersChanged()] * 2
    assert caplog.text.count("BrokersChanged was not followed") == 2
