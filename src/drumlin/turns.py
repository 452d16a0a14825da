"""Long work, done in turns, so that other work on the event loop gets its time.

All requests are handled on one loop. Work that grows with the size of a request or of a broker's
state is a coroutine that calls `give_way` at each step:

    for topic in topics:
        found.append(describe(topic))
        await give_way()

`give_way` returns at once while the work has time left. New work has 2 ms, which is usually enough,
or less if other work has begun in the same turn. After that, it queues with all other long work of
the loop: in each turn, the first in the queue continues for 1 ms, and then everything else that is
ready runs. `to_end` runs the same coroutine without a pause: in a thread, where no other work
waits, or if it is short.

State may have changed whenever `give_way` returns, so it is called only where that does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

_log = logging.getLogger(__name__)
T = TypeVar("T")
Item = TypeVar("Item")

#: The time slice of new work; continued work has half of that.
TURN_S: Final = 0.002

#: The time slice of new work when other work has begun in the same turn.
_LATE_S: Final = TURN_S / 8

#: The number of coroutines that run concurrently; each may do some work before it first awaits.
_TOGETHER: Final = 32


def _end_of_turn() -> float:
    """The time at which continued work that resumes now must yield."""
    return time.monotonic() + TURN_S / 2


def end_of_new_turn() -> float:
    """The time at which work that begins now must yield, even if other work has begun before."""
    return time.monotonic() + TURN_S


def to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` without a pause: in a thread, where no other work waits, or if it is short.

    Raises:
        RuntimeError: `work` waits for anything but its turn.
    """
    ends_at, _turn.ends_at = _turn.ends_at, math.inf
    try:
        while True:
            if work.send(None) is not None:
                raise RuntimeError("what is to be done at once waits for something")
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        _turn.ends_at = ends_at
        work.close()


def emptied(items: list[T]) -> Iterator[T]:
    """The items in order; each is removed from the list when yielded."""
    items.reverse()
    while items:
        yield items.pop()


async def forget(*collections: list[Any] | dict[Any, Any]) -> None:
    """Remove the items of containers one by one, as freeing many or large ones takes long."""
    for each in collections:
        while each:
            if isinstance(each, list):
                each.pop()
            else:
                each.popitem()
            await give_way()


def is_long_turn(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop's current turn has lasted so long that deferrable work should wait.

    False unless the loop records when turns begin, as a broker's loop does.
    """
    began: float | None = getattr(loop, "turn_began", None)
    return began is not None and time.monotonic() - began > TURN_S / 2


def first_turn_ends_at(loop: asyncio.AbstractEventLoop) -> float:
    """The time at which work that begins now must yield: soon, if this turn has run other work.

    The loop may receive requests of dozens of clients in one turn.
    """
    return time.monotonic() + (_LATE_S if is_long_turn(loop) else TURN_S)


def begin_turn(loop: asyncio.AbstractEventLoop) -> float:
    """Begin new work; returns the time at which it must yield."""
    ends_at = _turn.ends_at = first_turn_ends_at(loop)
    return ends_at


async def give_way() -> bool:
    """Let other work run if this turn is over; returns whether other work has run."""
    if time.monotonic() < _turn.ends_at:
        return False
    line = _line()
    if line is None or _is_young_turn(line.loop):
        return False  # runs in a thread, or was just resumed after waiting for something else
    await line.wait()
    _turn.ends_at = _end_of_turn()
    return True


def _line() -> _Line | None:
    """The queue of this thread's loop, if one is running."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    line = _turn.line
    if line is None or line.loop is not loop:
        line = _turn.line = _Line(loop)
    return line


def _is_young_turn(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop's current turn is still shorter than a turn of continued work."""
    began: float | None = getattr(loop, "turn_began", None)
    return began is not None and time.monotonic() - began < TURN_S / 2


class Rest(Generic[T]):
    """Work that has begun but may not be finished; await it for its result."""

    __slots__ = ("_awaited", "_error", "_is_begun", "_result", "_work", "is_over")

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._awaited: Any = None
        self._result: list[T] = []
        self._error: Exception | None = None
        self._is_begun = self.is_over = False

    def begin(self) -> bool:
        """Run the work for a turn, or until it waits for something; returns whether it is
        finished.
        """
        former, _turn.ends_at = _turn.ends_at, time.monotonic() + TURN_S
        try:
            self._resume()
        finally:
            _turn.ends_at = former
        return self.is_over

    @types.coroutine
    def advance(self) -> Generator[Any, Any, None]:
        """Run the work while it only gives way: to its end, or until it waits for something."""
        if not self._is_begun:
            self._resume()
        while not self.is_over and isinstance(self._awaited, _Place):
            yield self._awaited
            self._resume()

    def result(self) -> T:
        """
        Raises:
            Exception: the error with which the work has ended.
        """
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame
        (result,) = self._result
        return result

    def _resume(self) -> None:
        self._is_begun = True
        try:
            self._awaited = self._work.send(None)
        except StopIteration as done:
            self._result.append(done.value)
            self.is_over = True
        except Exception as error:  # noqa: BLE001  whoever asks for the result gets it
            self._error = error
            self.is_over = True

    def __del__(self) -> None:
        self._work.close()  # the work may never have been awaited

    async def end(self) -> T:
        """Await the work, in a coroutine for a task."""
        return await self

    def __await__(self) -> Generator[Any, Any, T]:
        if self.is_over:
            result = self.result()
            self._result.clear()
            return result
        awaited = self._awaited
        while self._is_begun:
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001  the work's matter
                try:
                    awaited = self._work.throw(error)
                except StopIteration as done:
                    last: T = done.value
                    return last
            else:
                break
        return (yield from self._work.__await__())


@types.coroutine
def checked(work: Coroutine[Any, Any, T], check: Callable[[], object]) -> Generator[Any, Any, T]:
    """Do `work`; whenever other work has run meanwhile, continue only if `check` does not raise."""
    try:
        awaited = work.send(None)
        while True:
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001  the work's matter
                awaited = work.throw(error)
            else:
                check()
                awaited = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        work.close()


class _Place(asyncio.Future[None]):
    """A waiter's place in the queue."""


class _Line:
    """The queue of work that gave way on one loop; each turn of the loop continues the first."""

    __slots__ = ("_is_moving", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[_Place] = deque()
        self._is_moving = False

    def wait(self) -> _Place:
        """A future that is done when it is the caller's turn."""
        place = _Place(loop=self.loop)
        self._waiting.append(place)
        if not self._is_moving:
            self._is_moving = True
            self.loop.call_soon(self._move)
        return place

    def _move(self) -> None:
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():  # and not cancelled
                first.set_result(None)
                self.loop.call_soon(self._move)  # runs after the turn of `first`
                return
        self._is_moving = False


class _Turn(threading.local):
    """The present turn of this thread's code."""

    #: The time at which it must give way; infinite while `to_end` runs.
    ends_at = -math.inf
    line: _Line | None = None


_turn: Final = _Turn()


class Rounds:
    """Callbacks with more work to do: each takes at most a turn, and all together little more.

    A callback that is not finished adds itself again, and is called after all others.
    """

    def __init__(self, slice_s: float = TURN_S / 2) -> None:
        """`slice_s`: the time for callbacks in each turn of the loop; 0: one callback per turn."""
        self._slice_s = slice_s
        self._waiting: deque[Callable[[], object]] = deque()

    def add(self, go_on: Callable[[], object]) -> None:
        """Call `go_on` in one of the next turns of the loop."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        ends_at = time.monotonic() + self._slice_s
        for _ in range(len(self._waiting)):
            # It stays in the queue during the call: `add` calls the loop only for an empty queue.
            try:
                self._waiting[0]()
            except Exception:  # noqa: BLE001  the others would wait for ever
                _log.exception("a callback with more to do has failed")
            self._waiting.popleft()
            if time.monotonic() >= ends_at:
                break
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)


async def side_by_side(
    do: Callable[[Item], Awaitable[T]], items: Sequence[Item], at_a_time: int = _TOGETHER
) -> list[T]:
    """The results of `do` for each item; a limited number run at a time, to keep turns short."""
    results: list[T] = []
    for first in range(0, len(items), at_a_time):
        results += await asyncio.gather(*map(do, items[first : first + at_a_time]))
        await give_way()
    return results
