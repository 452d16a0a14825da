"""Turns of the event loop that take long are counted, and told with who made them long."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import pytest

from drumlin.broker.loop_watch import SLOW_S, LoopWatch


def _hold_up(seconds: float) -> None:
    time.sleep(seconds)


def _run(*steps: Callable[[], None]) -> dict[tuple[str, ...], float]:
    """The steps, each in a turn of its own, and what was measured."""
    watch = LoopWatch()

    async def work() -> None:
        watch.begin()
        for step in steps:
            step()
            await asyncio.sleep(0)
        watch.end()

    with asyncio.Runner(loop_factory=watch.new_loop) as runner:
        runner.run(work())
    return {
        (measure.name.removeprefix("drumlin_event_loop_"), *sample.labels): sample.value
        for measure in watch.measures()
        for sample in measure.samples
    }


def test_a_long_turn_is_told_with_its_culprit(caplog: pytest.LogCaptureFixture) -> None:
    measured = _run(lambda: _hold_up(4 * SLOW_S))
    (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "_hold_up (" in line
    assert "test_loop_watch.py:" in line
    assert measured["slow_turns", "0.01"] >= 1
    assert measured["slow_turns", "0.05"] == 1
    assert measured["slow_turns", "1"] == 0
    assert measured["longest_turn_seconds",] >= 4 * SLOW_S
    assert measured["busy_seconds",] >= 4 * SLOW_S


def test_many_long_turns_are_told_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    measured = _run(*[lambda: _hold_up(1.5 * SLOW_S)] * 5)
    told = [each for each in caplog.records if "held up" in each.getMessage()]
    assert len(told) == 1
    assert measured["slow_turns", "0.05"] == 5


def test_short_turns_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    measured = _run(*[lambda: None] * 50)
    assert measured["turns",] >= 50
    assert not [each for each in caplog.records if "held up" in each.getMessage()]
