"""How far streams fetch ahead: three ordinary pieces, and no more than room for large ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from drumlin.client.read.fetch_memory import FetchMemory, Share

MIB = 1 << 20
FETCH_BYTES = 8 * MIB


async def may_fetch(share: Share) -> bool:
    """Whether a fetch begins at once; if not, it does not begin at all."""
    waiting = asyncio.ensure_future(share.wait_to_fetch(FETCH_BYTES))
    for _ in range(3):
        await asyncio.sleep(0)
    if waiting.done():
        return True
    waiting.cancel()
    return False


async def ordinary_pieces() -> None:
    share = FetchMemory(FETCH_BYTES).share()
    share.ask()
    for _ in range(6):
        assert await may_fetch(share)
        share.fetched(FETCH_BYTES)
    share.answer()
    assert not await may_fetch(share)
    share.ask()  # done with the first
    assert await may_fetch(share)


async def large_pieces_come_when_they_are_asked_for() -> None:
    memory = FetchMemory(FETCH_BYTES)
    first, second = memory.share(), memory.share()
    for _ in range(3):
        first.ask()
        assert await may_fetch(first)
        first.fetched(64 * MIB)
        assert not await may_fetch(first)  # the reader has not seen this one
        first.answer()
        assert not await may_fetch(first)
        assert not await may_fetch(second)  # others may be as large
    second.ask()
    assert await may_fetch(second)


async def what_is_given_up_frees_memory() -> None:
    memory = FetchMemory(FETCH_BYTES)
    first, second = memory.share(), memory.share()
    first.ask()
    assert await may_fetch(first)
    first.fetched(40 * MIB)
    first.answer()
    waiting = asyncio.ensure_future(second.wait_to_fetch(FETCH_BYTES))
    await asyncio.sleep(0)
    assert not waiting.done()
    first.give_up()
    await asyncio.wait_for(waiting, 5)


async def a_fetch_that_brought_nothing_is_repeated() -> None:
    share = FetchMemory(FETCH_BYTES).share()
    share.ask()
    for _ in range(20):
        assert await may_fetch(share)
        share.fetched(0)
        share.leave_out()


async def fetches_that_are_meant_to_be_large_run_ahead_too() -> None:
    share = FetchMemory(64 * MIB).share()
    for _ in range(3):
        assert await may_fetch(share)
        share.fetched(64 * MIB)
    assert not await may_fetch(share)


@pytest.mark.parametrize(
    "story",
    [
        ordinary_pieces,
        large_pieces_come_when_they_are_asked_for,
        what_is_given_up_frees_memory,
        a_fetch_that_brought_nothing_is_repeated,
        fetches_that_are_meant_to_be_large_run_ahead_too,
    ],
)
def test_memory(story: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await story()

    asyncio.run(run())
