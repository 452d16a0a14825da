"""Plain code that waits in a task of asyncio, by a greenlet.

`waiting(function)` is a coroutine that calls a plain function; wherever that calls
`wait_for(awaitable)`, the coroutine awaits it, in the caller's own task, and the function goes on
with the result. So a cancellation, too, comes out of `wait_for`, as an interrupt would.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

from greenlet import getcurrent, greenlet

P = ParamSpec("P")
T = TypeVar("T")


class _Code(greenlet):  # type: ignore[misc]
    """A call in progress. Between a switch to it and the next one to its parent it runs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, getcurrent())
        self.gr_context = getcurrent().gr_context  # context variables are the task's
        self.is_abandoned = False


def may_wait() -> bool:
    """Whether this is code that `waiting` has called."""
    return isinstance(getcurrent(), _Code)


def wait_for(awaitable: Awaitable[T]) -> T:
    """The result of an awaitable, for which the task of this code waits."""
    code = getcurrent()
    assert isinstance(code, _Code), "only code that `waiting` has called may wait"
    if code.is_abandoned:
        raise GeneratorExit
    result: T = code.parent.switch(awaitable)
    return result


async def waiting(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """The result of a plain function that may call `wait_for`."""
    code = _Code(function)
    wanted = code.switch(*args, **options)
    while not code.dead:
        try:
            found = await wanted
        except GeneratorExit:  # the loop has ended, with this task in it
            code.is_abandoned = True
            code.throw(GeneratorExit)
            raise
        except BaseException:  # noqa: BLE001 - it is raised there, and may come out of `switch`
            wanted = code.throw(*sys.exc_info())
        else:
            wanted = code.switch(found)
    result: T = wanted
    return result
