"""`Later`: an answer that is still pending, for handlers and connections alike.

The code that owes the answer keeps the `Later` and settles it once. The connection takes the result
during that call, unless it has closed; a state machine in the middle of a change therefore settles
it through `Wakeups`. Once settled, a `Later` refers neither to that code nor to the connection: a
reference cycle might stay for hours (`broker/loop/garbage.py`).

Most answers are never pending: `begun` runs the first step of a coroutine at once, as the eager
tasks of Python 3.12 do, and creates a task only if the coroutine waits for something. In the first
step there is no current task, or it belongs to other code: so handlers and the code that they call
use `asyncio.wait`, and neither `asyncio.timeout` nor `wait_for`, which would cancel that task.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, NoReturn, TypeAlias, TypeVar, cast

_log = logging.getLogger(__name__)

T = TypeVar("T")
#: One encoded answer: bytes and slices of files, one after the other.
Parts = list[Any]

#: The number of answers cancelled in one turn. They take about a millisecond, as each may be a
#: task that has to end.
_GIVEN_UP_PER_TURN: Final = 32


class Later(Generic[T]):
    """An answer that will come: it is settled with the answer or with an exception.

    Connections take `Later[Parts | None]`: None if the request has no response; an exception closes
    the connection. A handler returns a `Later` that is settled with its response; the router
    encodes that in the same call.
    """

    __slots__ = (
        "_answer",
        "_encode",
        "_error",
        "_give_up",
        "_is_settled",
        "_is_unwanted",
        "_take",
        "lets_pass",
        "task",
    )

    def __init__(
        self, *, lets_pass: bool = False, give_up: Callable[[], object] | None = None
    ) -> None:
        """`lets_pass`: the request has made its changes, and the next one may start.

        `give_up` is called if the peer disconnects before this is settled. Without `give_up`, work
        in progress runs to its end.
        """
        self.lets_pass = lets_pass
        self._give_up = give_up
        self._encode: Callable[[Later[T]], Any] | None = None
        self._take: Callable[[Later[T]], object] | None = None
        #: The task that will settle it, if there is one: the event loop does not keep tasks alive.
        self.task: asyncio.Task[None] | None = None
        self._is_settled = self._is_unwanted = False
        self._answer: T | None = None
        self._error: Exception | None = None

    def settle(self, answer: T | None, error: Exception | None = None) -> None:
        encode, self._encode = self._encode, None
        self._answer, self._error = answer, error
        if encode is not None and not self._is_unwanted:
            try:
                encoded = encode(self)
            except Exception as failure:  # noqa: BLE001  the connection handles it
                self._answer, self._error = None, failure
            else:
                if isinstance(encoded, Later):  # encoding runs in a thread
                    encoded.when_settled(self.settled_by)
                    return
                self._answer, self._error = encoded, None
        take, self._take = self._take, None
        self.task = self._give_up = None
        self._is_settled = True
        if self._is_unwanted:
            release(self._answer)
            self._answer = self._error = None
        elif take is not None:
            take(self)

    def give_up_by(self, give_up: Callable[[], object]) -> None:
        """The function to call if the peer disconnects before this is settled."""
        self._give_up = give_up

    def settled_by(self, other: Later[Any]) -> None:
        """Settle this with the outcome of `other`."""
        self.settle(other._answer, other._error)

    def encoded_by(self, encode: Callable[[Later[T]], Any]) -> Later[Any]:
        """A `Later` that is settled with what `encode` returns or raises once this one is
        settled."""
        if self._is_settled:
            self._is_settled = False
            self._encode = encode
            self.settle(self._answer, self._error)
        else:
            self._encode = encode
        return cast("Later[Any]", self)

    @property
    def is_settled(self) -> bool:
        return self._is_settled

    def when_settled(self, take: Callable[[Later[T]], object]) -> None:
        """Call `take` with this once it is settled, which may be now."""
        if self._is_settled:
            take(self)
        else:
            self._take = take

    def result(self) -> T:
        """The answer, once.

        Raises:
            Exception: the exception with which it was settled.
        """
        answer, error, self._answer, self._error = self._answer, self._error, None, None
        if error is None:
            return cast("T", answer)
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame

    async def until_settled(self) -> None:
        """Wait until this is settled, without taking the result."""
        settled = asyncio.get_running_loop().create_future()
        self.when_settled(settled.set_result)
        await settled

    def cancel(self) -> None:
        """Give up: the answer is no longer needed."""
        give_up = self.unwanted()
        if give_up is not None:
            give_up()

    def unwanted(self) -> Callable[[], object] | None:
        """Like `cancel`, but returns `give_up` for the caller to call."""
        give_up, self._give_up = self._give_up, None
        self._is_unwanted, self._take = True, None
        return give_up


#: The kind that connections take; None: the request has no response.
LaterParts: TypeAlias = Later[Parts | None]


class GivingUp:
    """Cancels unwanted answers, a limited number in each turn of the loop.

    Tasks that end because of it take time, too, in the next turn.
    """

    def __init__(self) -> None:
        self._left: deque[Callable[[], object]] = deque()
        self._number = 0  # in this turn
        self._goes_on = False

    def add(self, later: Later[Any]) -> None:
        """Cancel `later` soon."""
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


def begun(answer: Coroutine[Any, Any, T | Later[T]], *, lets_pass: bool = False) -> T | Later[T]:
    """The result of `answer`, if it waits for nothing; else a `Later`, and `answer` continues in a
    task.

    Raises:
        Exception: the exception of `answer` before it waits for anything.
    """
    try:
        awaited = answer.send(None)
    except StopIteration as done:
        result: T | Later[T] = done.value
        return result
    later: Later[T] = Later(lets_pass=lets_pass)  # `Later[T]()` would take five times as long
    task = later.task = asyncio.get_running_loop().create_task(_Rest(answer, awaited, later))
    if lets_pass:
        later.give_up_by(task.cancel)
    return later


def waiting(answer: Coroutine[Any, Any, T | Later[T]]) -> T | Later[T]:
    """The result of a handler that has made its changes and only awaits `answer`.

    The connection may start its next request meanwhile, and cancels `answer` when the peer is gone.
    """
    return begun(answer, lets_pass=True)


class _Rest(Coroutine[Any, Any, None]):
    """The rest of an answer after its first step: it waits for `awaited`, and settles `later`.

    Not a coroutine that awaits the rest: cancelled before its first step, it would drop the rest.
    """

    __slots__ = ("_answer", "_awaited", "_is_begun", "_later")

    def __init__(
        self, answer: Coroutine[Any, Any, T | Later[T]], awaited: Any, later: Later[T]
    ) -> None:
        self._answer = answer
        self._awaited = awaited
        self._later = later
        self._is_begun = False

    def send(self, value: Any) -> Any:
        if self._is_begun:
            return self._go_on(self._answer.send, value)
        return self._begin()  # the task waits for it

    def throw(self, error: Any, *_: Any) -> Any:
        if not self._is_begun:  # as if a task had been cancelled while it waits
            awaited = self._begin()
            if awaited is not None:
                awaited.cancel()
        try:
            return self._go_on(self._answer.throw, error)
        finally:
            del error  # its traceback will refer to this frame

    def close(self) -> None:
        self._answer.close()

    def __await__(self) -> NoReturn:
        raise TypeError("only a task runs it")

    def _begin(self) -> Any:
        self._is_begun = True
        awaited, self._awaited = self._awaited, None
        return awaited

    def _go_on(self, resume: Callable[[Any], Any], value: Any) -> Any:
        later = self._later
        try:
            return resume(value)
        except StopIteration as done:
            found = done.value
        except Exception as error:  # noqa: BLE001  the connection handles it
            later.settle(None, error)
            raise StopIteration from None
        except BaseException:
            later.task = None  # the task refers to this: break the cycle
            raise
        finally:
            del value  # as above
        if isinstance(found, Later):
            found.when_settled(later.settled_by)
        else:
            later.settle(found)
        raise StopIteration


def release(answer: object) -> None:
    """Release the files of an answer that will not be sent."""
    for part in answer if isinstance(answer, list) else ():
        if hasattr(part, "release") and hasattr(part, "fileno"):
            part.release()
