"""Finds in the log what commands, or another capture of this name, want of a running capture."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from drumlin.capture.log.output import Output
from drumlin.capture.log.position import Definition

#: Whoever fences a capture has written why in this time.
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
    """Find out why the capture was fenced: whoever has done that writes it afterwards.

    Raises:
        BeginAgain: as of `heed`. Else it is not known, as when the broker has ended a transaction.
    """
    until_s = time.monotonic() + _EXPLAINED_S
    while not should_stop() and time.monotonic() < until_s:
        heed(output, definition, run)
        time.sleep(_LOOK_S)
