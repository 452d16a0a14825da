"""Finds requests to a running capture in the log, from commands or from another capture."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from drumlin.capture.log.output import Output
from drumlin.capture.log.position import Definition

#: The time within which a process that fences a capture writes its reason to the log.
_EXPLAINED_S: Final = 1.0
_LOOK_S: Final = 0.05


class BeginAgain(Exception):
    """The session must restart because of new tables, a command, or another capture."""


def heed(output: Output, definition: Definition, run: str) -> None:
    """
    Raises:
        BeginAgain: the log has another definition, or another capture has written its position.
    """
    in_log, position = output.read_definition(), output.read_position()
    if in_log is None or in_log.encode() != definition.encode():
        raise BeginAgain
    if position is None or position.run != run:
        raise BeginAgain


def await_reason(
    output: Output, definition: Definition, run: str, should_stop: Callable[[], bool]
) -> None:
    """Wait for the reason why the capture was fenced, which the other process writes afterwards.

    Returns if there is none in time, for example after the broker has aborted a transaction.

    Raises:
        BeginAgain: as from `heed`.
    """
    until_s = time.monotonic() + _EXPLAINED_S
    while not should_stop() and time.monotonic() < until_s:
        heed(output, definition, run)
        time.sleep(_LOOK_S)
