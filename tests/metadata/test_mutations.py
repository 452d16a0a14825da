"""Mutations that go on although whoever asked for them has given up."""

from __future__ import annotations

import asyncio
import gc

import pytest

from drumlin.metadata.mutations import uncancelled


def test_a_mutation_that_nobody_awaits_any_more_ends_and_tells_its_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asyncio.run(_give_up())
    gc.collect()
    assert "nobody waited any more has failed: OSError('the disk is full')" in caplog.text
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
    await has_ended.wait()
    for _ in range(3):  # what follows from the end of a task comes in later turns
        await asyncio.sleep(0)
