"""Connections that are muted: when each may go on, and that others come between them."""

from __future__ import annotations

import asyncio

import pytest

from drumlin.broker.net import muting
from drumlin.broker.net.muting import Muting
from drumlin.turns import Rounds


class _Line:
    """Connections of one loop; `turns` has who went on in each turn of it."""

    def __init__(self, names: str) -> None:
        self.turns: list[str] = []
        self._now = ""
        line = Rounds(slice_s=0)
        self.muted = {each: Muting(lambda each=each: self._go_on(each), line) for each in names}  # type: ignore[misc]

    def _go_on(self, name: str) -> None:
        self._now += name

    async def run(self, turns: int) -> list[str]:
        for _ in range(turns):
            self._now = ""
            await asyncio.sleep(0)
            self.turns.append(self._now)
        return self.turns


async def _over(line: _Line) -> None:
    """Let the time of all be over, in one turn."""
    for each in line.muted.values():
        timer = each._timer
        assert timer is not None
        timer.cancel()
        each._end()


def test_all_that_are_unmuted_at_once_go_on_one_by_one() -> None:
    async def run() -> list[str]:
        line = _Line("abc")
        for each in line.muted.values():
            assert each.begin(60_000)
        await _over(line)
        assert all(line.muted.values())
        turns = await line.run(4)
        assert not any(line.muted.values())
        return turns

    assert asyncio.run(run()) == ["a", "b", "c", ""]


def test_who_was_muted_lately_stands_in_line_again_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        line = _Line("abc")
        for name in "ab":
            line.muted[name].begin(60_000)
        line.muted["c"].begin(0)
        assert not line.muted["c"]
        line.muted["c"].begin(60_000)
        await _over(line)
        await line.run(3)
        assert [line.muted[name].begin(0) for name in "ab"] == [True, True]
        assert line.muted["a"].begin(0), "once is enough"
        assert await line.run(3) == ["a", "b", "c", "a", "b", ""]

    monkeypatch.setattr(muting, "_LATELY_S", 3600.0)
    asyncio.run(run())

    async def much_later() -> None:
        line = _Line("a")
        line.muted["a"].begin(1)
        await _over(line)
        await line.run(1)
        assert not line.muted["a"].begin(0)

    monkeypatch.setattr(muting, "_LATELY_S", -3600.0)
    asyncio.run(much_later())


def test_who_is_muted_in_line_waits_for_that_too() -> None:
    async def run() -> None:
        line = _Line("a")
        line.muted["a"].begin(60_000)
        await _over(line)
        line.muted["a"].begin(60_000)
        assert await line.run(2) == ["", ""]
        assert line.muted["a"]
        await _over(line)
        assert await line.run(2) == ["", "", "a", ""]

    asyncio.run(run())


def test_who_is_closed_goes_on_no_more() -> None:
    async def run() -> None:
        line = _Line("ab")
        for each in line.muted.values():
            each.begin(60_000)
        await _over(line)
        line.muted["a"].close()
        line.muted["b"].begin(60_000)
        line.muted["b"].close()
        assert await line.run(3) == ["", "", ""]

    asyncio.run(run())
