"""Keys from a terminal, one by one, without waiting for a line. The terminal is left as it was."""

from __future__ import annotations

import codecs
import contextlib
import os
import termios
import tty
from collections.abc import Iterator
from typing import Final

_SEQUENCES: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
    "\x1b[H": "home",
    "\x1b[1~": "home",
    "\x1bOH": "home",
    "\x1b[Z": "backtab",
}
_NAMED: Final = {
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b": "escape",
}
_ENDS: Final = frozenset("ABCDEFGHPQRSZ~")
_READ_BYTES: Final = 1024


@contextlib.contextmanager
def key_by_key(descriptor: int) -> Iterator[None]:
    """A terminal that gives each key at once, and does not show it."""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class Keyboard:
    """Takes what has arrived apart into keys."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self) -> list[str]:
        """The keys that have arrived; "q" when the terminal is gone."""
        try:
            content = os.read(self._descriptor, _READ_BYTES)
        except OSError:
            content = b""
        return [*keys_in(self._decoder.decode(content))] if content else ["q"]


def keys_in(text: str) -> Iterator[str]:
    """The keys that a terminal has sent; unknown ones are left out."""
    at = 0
    while at < len(text):
        end = at + 1
        if text[at] == "\x1b" and text[at + 1 : at + 2] in ("[", "O"):
            end = at + 2
            while end < len(text) and text[end] not in _ENDS:
                end += 1
            end += 1
            name = _SEQUENCES.get(text[at:end])
            if name is not None:
                yield name
        else:
            yield _NAMED.get(text[at], text[at])
        at = end
