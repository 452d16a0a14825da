"""What is done in the background."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from drumlin.background import Background, shielded


def test_work_that_fails_is_logged_and_repeated(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        background = Background()
        is_enough = asyncio.Event()
        turns = 0

        async def work() -> None:
            nonlocal turns
            turns += 1
            if turns == 2:
                is_enough.set()
            raise OSError("a bad day")

        background.repeat(lambda: 0, work)
        await asyncio.wait_for(is_enough.wait(), 30)
        await background.end()
        assert len(background) == 0

    with caplog.at_level(logging.ERROR):
        asyncio.run(test())
    assert "a bad day" in caplog.text


def test_the_end_waits_for_what_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> list[str]:
        background = Background()
        said = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                said.append("ended")

        async def fail() -> None:
            raise OSError("a bad day")

        background.spawn(work())
        background.spawn(fail())
        await asyncio.sleep(0)
        await background.end()
        return said

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(test()) == ["ended"]
    assert "a bad day" in caplog.text


def test_settling_waits_also_for_what_begins_meanwhile() -> None:
    async def test() -> list[str]:
        background = Background()
        said = []

        async def first() -> None:
            await asyncio.sleep(0)
            background.spawn(second())
            said.append("first")

        async def second() -> None:
            await asyncio.sleep(0)
            said.append("second")

        task = background.spawn(first())
        await background.settle()
        assert task.done()
        assert len(background) == 0
        await background.settle()
        return said

    assert asyncio.run(test()) == ["first", "second"]


def test_whoever_waits_hears_what_the_work_comes_to_and_nobody_has_to(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> str:
        return "done"

    async def fail() -> str:
        raise OSError("a bad day")

    async def test() -> None:
        background = Background()
        assert await background.answer_with(work()) == "done"
        with pytest.raises(OSError, match="a bad day"):
            await background.answer_with(fail())
        background.answer_with(work()).cancel()
        background.answer_with(fail()).cancel()
        await background.settle()
        assert len(background) == 0

    with caplog.at_level(logging.ERROR):
        asyncio.run(test())
    assert not caplog.text


@pytest.mark.parametrize("has_begun", [False, True])
def test_whoever_waits_at_the_end_is_told(has_begun: bool) -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    async def test() -> None:
        background = Background(lambda: OSError("the end"))
        answer = background.answer_with(work())
        if has_begun:
            await asyncio.sleep(0)
        await background.end()
        with pytest.raises(OSError, match="the end"):
            await asyncio.wait_for(answer, 30)

    asyncio.run(test())


def test_shielded_work_that_fails_after_its_caller_was_cancelled_is_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        callers = [asyncio.create_task(shielded(work)) for _ in range(2)]
        await asyncio.sleep(0)
        callers[0].cancel()
        await asyncio.wait(callers[:1])
        assert not work.done()
        work.set_exception(OSError("a bad day"))
        with pytest.raises(OSError, match="a bad day"):
            await callers[1]
        alone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        caller = asyncio.create_task(shielded(alone))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        alone.set_exception(OSError("a bad day"))

    asyncio.run(test())
    gc.collect()
    assert "never retrieved" not in caplog.text
