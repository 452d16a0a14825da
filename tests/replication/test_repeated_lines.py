"""However many partitions say the same, and however often, it takes few lines of the log."""

from __future__ import annotations

import asyncio
import logging

import pytest

from drumlin.replication.repeated_lines import RepeatedLines
from rig.time.virtual_time import run_in_virtual_time

_logger = logging.getLogger("drumlin.test_repeated_lines")


def test_the_first_is_said_at_once_and_the_others_as_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        lines = RepeatedLines(_logger)
        for index in range(300):
            lines.write(logging.WARNING, f"t-{index}", "pauses")
        lines.write(logging.WARNING, "u-0", "is away")
        assert caplog.messages == ["t-0: pauses", "u-0: is away"]
        await asyncio.sleep(1.5)
        assert caplog.messages[2:] == ["t-1, t-2, t-3, … (299 times): pauses"]
        await asyncio.sleep(5)
        lines.write(logging.WARNING, "t-0", "pauses")  # another time
        assert caplog.messages[3:] == ["t-0: pauses"]

    run_in_virtual_time(scenario())


def test_what_does_not_end_is_said_ever_more_seldom(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        lines = RepeatedLines(_logger)
        for _ in range(5 * 3600):
            for index in range(2):
                lines.write(logging.WARNING, f"t-{index}", "pauses")
            await asyncio.sleep(0.2)

    run_in_virtual_time(scenario())
    assert caplog.messages[:2] == ["t-0: pauses", "t-1, t-0, … (9 times): pauses"]
    assert len(caplog.messages) < 20  # in an hour
