"""An answer that comes later: the one form of it that a connection knows.

The code that owes the answer keeps the `Later` and settles it, once. The connection takes the
result at that moment, without a turn of the loop in between, unless it has given up. From then on
the `Later` refers to neither of them: in a reference cycle all three might stay for hours
(`broker/loop/garbage.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

_log = logging.getLogger(__name__)

#: One answer as it is sent: bytes and slices of files, one after the other.
Parts = list[Any]

#: A millisecond's worth, as each may be a task that ends.
_GIVEN_UP_PER_TURN: Final = 32


class Later:
    """Settled with parts, None (no answer is wanted) or an exception (the connection ends)."""

    __slots__ = ("_error", "_give_up", "_is_unwanted", "_parts", "_take", "lets_pass", "task")

    def __init__(
        self, *, lets_pass: bool = False, give_up: Callable[[], object] | None = None
    ) -> None:
        """`lets_pass`: the request has made its changes, and the next one may start.

        `give_up` is called if the peer disconnects before it is settled. Without it, the work under
        way runs to its end.
        """
        self.lets_pass = lets_pass
        self._give_up = give_up
        self._take: Callable[[Later], object] | None = None
        #: What will settle it, if that is a task: a loop keeps none alive.
        self.task: asyncio.Task[None] | None = None
        self._is_unwanted = False
        self._parts: Parts | None = None
        self._error: Exception | None = None

    def settle(self, parts: Parts | None, error: Exception | None = None) -> None:
        take, self._take = self._take, None
        self.task = self._give_up = None
        if self._is_unwanted:
            release(parts)
            return
        self._parts, self._error = parts, error
        if take is not None:
            take(self)

    def when_settled(self, take: Callable[[Later], object]) -> None:
        """Have `take` called with this once it is settled, which it never is yet."""
        self._take = take

    def result(self) -> Parts | None:
        """
        Raises:
            Exception: what it was settled with.
        """
        if self._error is not None:
            raise self._error
        return self._parts

    def cancel(self) -> None:
        """The answer is not wanted any more."""
        give_up = self.unwanted()
        if give_up is not None:
            give_up()

    def unwanted(self) -> Callable[[], object] | None:
        """Like `cancel`, but the work of giving up is left to the function returned."""
        give_up, self._give_up = self._give_up, None
        self._is_unwanted, self._take = True, None
        return give_up


class GivingUp:
    """Gives up unwanted answers; if they are very many, some in each turn of the loop.

    What ends because of that takes its time too, in the next turn.
    """

    def __init__(self) -> None:
        self._left: deque[Callable[[], object]] = deque()
        self._number = 0  # in this turn
        self._goes_on = False

    def add(self, later: Later) -> None:
        """Give up `later` soon."""
        give_up = later.unwanted()
        if give_up is None:
            return
        self._number += 1
        if self._number <= _GIVEN_UP_PER_TURN:
            give_up()
        else:
            self._left.append(give_up)
        if not self._goes_on:
            self._goes_on = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._number = min(len(self._left), _GIVEN_UP_PER_TURN)
        self._goes_on = self._number > 0
        if self._goes_on:
            asyncio.get_running_loop().call_soon(self._go_on)
        for _ in range(self._number):
            try:
                self._left.popleft()()
            except Exception:  # noqa: BLE001  the others must still be given up
                _log.exception("a request of a connection that has ended could not be given up")


def when_done(answer: Awaitable[Parts | None], *, lets_pass: bool = False) -> Later:
    """What `answer` returns or raises, in a task of its own."""

    async def run() -> None:
        try:
            parts = await answer
        except Exception as error:  # noqa: BLE001  it is the connection's to tell
            later.settle(None, error)
        else:
            later.settle(parts)

    task = asyncio.get_running_loop().create_task(run())
    later = Later(lets_pass=lets_pass, give_up=task.cancel if lets_pass else None)
    later.task = task
    return later


def release(parts: Parts | None) -> None:
    """Release the files in an answer that is not sent."""
    for part in parts or ():
        if hasattr(part, "release") and hasattr(part, "fileno"):
            part.release()
