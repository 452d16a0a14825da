"""Long work, done in turns, so that other work on the event loop gets its time.

All requests are handled on one loop. Work that grows with a request's size, or with what a broker
holds, must yield: a handler is a generator that yields after each entry, and `Turns` drives it; a
coroutine asks its `Pace`. New work has 2 ms, which is enough for most, or less where other work
has begun in the same turn. Continued work has 1 ms at a time, as there may be several such
generators: one of them has its turn, then everything else that is ready.

State may have changed whenever a generator resumes: it yields only where that does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

_log = logging.getLogger(__name__)
T = TypeVar("T")
Item = TypeVar("Item")

#: The time of new work; continued work has half of it.
TURN_S: Final = 0.002

#: The time of new work when other work has begun in the same turn.
_LATE_S: Final = TURN_S / 8

#: Done side by side; each may do some work before it awaits anything.
_TOGETHER: Final = 32

_FREED_TOGETHER: Final = 100
_LISTED_TOGETHER: Final = 500

#: Yields whenever it may be interrupted; what it returns is the result.
Work = Generator[None, None, T]


class Finished(NamedTuple):
    """The result of some work that is done."""

    result: Any


def one_turn(work: Work[Any], ends_at: float | None = None) -> Finished | None:
    """Begin with `work`; None if it has more to do by `ends_at`, or else at the end of a turn.

    Raises:
        Exception: whatever it raises.
    """
    if ends_at is None:
        ends_at = time.monotonic() + TURN_S
    try:
        while True:
            next(work)
            if time.monotonic() >= ends_at:
                return None
    except StopIteration as done:
        return Finished(done.value)


def _end_of_turn() -> float:
    """When continued work that resumes now must yield."""
    return time.monotonic() + TURN_S / 2


def to_end(work: Work[T]) -> T:
    """Do all of it at once: for a thread, where nothing waits for its turn, or if it is short."""
    try:
        while True:
            next(work)
    except StopIteration as done:
        result: T = done.value
        return result


def let_go(*collections: list[Any] | dict[Any, Any]) -> Work[None]:
    """Empty long collections in turns: freeing everything at once takes more than a turn."""
    for each in collections:
        while each:
            if isinstance(each, list):
                del each[-_FREED_TOGETHER:]
            else:
                for _ in range(min(_FREED_TOGETHER, len(each))):
                    each.popitem()
            yield


def listed(items: Iterable[Item]) -> Work[list[Item]]:
    """All of the items, which do not change meanwhile."""
    found: list[Item] = []
    left = iter(items)
    while some := tuple(islice(left, _LISTED_TOGETHER)):
        found += some
        yield
    return found


def emptied(items: list[T]) -> Iterator[T]:
    """The items in their order, each of them forgotten by the list when it is given."""
    items.reverse()
    while items:
        yield items.pop()


def is_long_turn(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the turn that the loop is in has lasted so long that what can wait had better.

    Only loops know that say when their turn began, as that of a broker's process does.
    """
    began: float | None = getattr(loop, "turn_began", None)
    return began is not None and time.monotonic() - began > TURN_S / 2


def first_turn_ends_at(loop: asyncio.AbstractEventLoop) -> float:
    """When work that begins now must yield: soon, if other work has run in this turn of the loop.

    The loop may receive requests of dozens of clients in one turn.
    """
    return time.monotonic() + (_LATE_S if is_long_turn(loop) else TURN_S)


class Turns:
    """All work of one loop that continues turn by turn."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Work[Any], asyncio.Future[Any]]] = deque()

    async def run(self, work: Work[T]) -> T:
        """Do `work` to its end, others in between. Cancelled, it is closed at its next turn."""
        return await self.start(work)

    def start(self, work: Work[T]) -> asyncio.Future[T]:
        """Like `run`, but the caller need not wait for it."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._waiting.append((work, done))
        if len(self._waiting) == 1:
            loop.call_soon(self._take_turn)
        return done

    def _take_turn(self) -> None:
        # It stays in front meanwhile: what it begins in its turn shall not call the loop.
        work, done = self._waiting[0]
        has_ended = True
        try:
            has_ended = _have_turn(work, done)
        finally:  # the others would wait for ever
            self._waiting.popleft()
            if not has_ended:
                self._waiting.append((work, done))
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._take_turn)
        del work, done  # as below


def _have_turn(work: Work[Any], done: asyncio.Future[Any]) -> bool:
    """Resume `work`; returns whether it has ended and set its result on `done`."""
    finished, failure = None, None
    if not done.cancelled():
        try:
            finished = one_turn(work, _end_of_turn())
        except Exception as error:  # noqa: BLE001  the caller that waits gets it
            failure = error
    if done.cancelled():  # before, or by what the work itself has done
        work.close()
    elif failure is not None:
        done.set_exception(failure)
        del done, failure  # it knows this frame: all three would hold each other for ever
    elif finished is None:
        return False
    else:
        done.set_result(finished.result)
    return True


class Rounds:
    """Callbacks with more work to do: each takes at most a turn, all together little more.

    A callback that is not finished adds itself again, and is called after all others.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()

    def add(self, go_on: Callable[[], object]) -> None:
        """Have `go_on` called in one of the next turns of the loop."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        ends_at = _end_of_turn()
        for _ in range(len(self._waiting)):
            # It stays first meanwhile: a callback that adds itself again must not call the loop.
            try:
                self._waiting[0]()
            except Exception:  # noqa: BLE001  the others would wait for ever
                _log.exception("a callback with more to do has failed")
            self._waiting.popleft()
            if time.monotonic() >= ends_at:
                break
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)


class Pace:
    """For a coroutine that works through a lot: `await pace.give_way()` at each step."""

    __slots__ = ("_ends_at",)

    def __init__(self) -> None:
        self._ends_at = _end_of_turn()

    async def give_way(self) -> bool:
        """Let others have their turn if this one is over; whether they had it."""
        if time.monotonic() < self._ends_at:
            return False
        await asyncio.sleep(0)
        self._ends_at = _end_of_turn()
        return True


async def side_by_side(
    do: Callable[[Item], Awaitable[T]], items: Sequence[Item], at_a_time: int = _TOGETHER
) -> list[T]:
    """The results of `do` for each item: some at a time, so that many do not block the loop."""
    pace = Pace()
    results: list[T] = []
    for first in range(0, len(items), at_a_time):
        results += await asyncio.gather(*map(do, items[first : first + at_a_time]))
        await pace.give_way()
    return results
