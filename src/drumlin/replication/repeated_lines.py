"""Log lines that repeat, for many partitions or for a single one.

The first line is written at once. Later ones with the same text are counted and written as one:
after a second, then at growing intervals while they keep coming. So an outage takes few lines,
however many partitions it affects and however often they retry. Used in the event loop only.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import logging

_FIRST_S: Final = 1.0
_LAST_S: Final = 600.0
_NAMED_MAX: Final = 3  # partitions, in one line


class _Line(NamedTuple):
    level: int
    text: str


class _Held:
    """The partitions for which a line has repeated since it was last written."""

    __slots__ = ("count", "names", "pause_s")

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s
        self.count = 0
        self.names: list[str] = []

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.names) < _NAMED_MAX and name not in self.names:
            self.names.append(name)

    @property
    def subject(self) -> str:
        names = ", ".join(self.names)
        return names if self.count == len(self.names) else f"{names}, … ({self.count} times)"


class RepeatedLines:
    """The repeated lines of one logger."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._held: dict[_Line, _Held] = {}

    def write(self, level: int, name: str, text: str) -> None:
        """Write `name: text`, now or together with later repetitions."""
        line = _Line(level, text)
        held = self._held.get(line)
        if held is not None:
            held.add(name)
        else:
            self._logger.log(level, "%s: %s", name, text)
            self._wait(line, _FIRST_S)

    def _wait(self, line: _Line, pause_s: float) -> None:
        self._held[line] = _Held(pause_s)
        asyncio.get_running_loop().call_later(pause_s, self._write_held, line)

    def _write_held(self, line: _Line) -> None:
        held = self._held.pop(line)
        if held.count:
            self._logger.log(line.level, "%s: %s", held.subject, line.text)
            self._wait(line, min(2 * held.pause_s, _LAST_S))
