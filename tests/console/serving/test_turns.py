"""Turns: what one user asks for does not keep others waiting."""

from __future__ import annotations

import asyncio
import gc

from drumlin.console.serving.turns import Turns


class _Work:
    """What is at work, and what has begun, in order."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.begun: list[str] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    def ask(self, name: str) -> None:
        """Someone's wish, called after their name."""
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._do(name))

    async def _do(self, name: str) -> None:
        async with self._turns.of(name[0]):
            self.begun.append(name)
            await self._ends[name].wait()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks.pop(name)
        await asyncio.sleep(0)

    async def cancel(self, name: str) -> None:
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)


def test_one_user_has_one_turn_and_others_do_not_wait_for_the_rest() -> None:
    async def play() -> None:
        work = _Work(Turns(2))
        for name in ("a1", "a2", "a3", "b1", "c1"):
            work.ask(name)
        await asyncio.sleep(0.01)
        assert work.begun == ["a1", "b1"]
        await work.end("a1")
        assert work.begun == ["a1", "b1", "c1"], "c has asked before a had another turn"
        await work.end("b1")
        assert work.begun == ["a1", "b1", "c1", "a2"]
        for name in ("c1", "a2", "a3"):
            await work.end(name)

    asyncio.run(play())


def test_who_no_longer_waits_has_no_turn() -> None:
    async def play() -> None:
        turns = Turns(1)
        work = _Work(turns)
        for name in ("a1", "a2", "b1"):
            work.ask(name)
        await asyncio.sleep(0.01)
        await work.cancel("a2")
        await work.cancel("a1")
        assert work.begun == ["a1", "b1"]
        await work.end("b1")
        gc.collect()
        assert not turns._own, "nothing is kept of those who ask no more"

    asyncio.run(play())
