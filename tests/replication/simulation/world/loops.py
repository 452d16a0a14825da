"""Event loops in simulated time: real coroutines run on them, as the loop of a process does.

Knows of a loop what coroutines and futures need. Nothing happens any more in a process that has
ended; one that stands still goes on where it was.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any

from replication.simulation.world.schedule import Action, Crash, Schedule


class _Handle:
    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """Of one process, or of all that is no process."""

    def __init__(
        self, schedule: Schedule, happens: Callable[[Action], None] = lambda action: action()
    ) -> None:
        """`happens` does what is to be done in the process now: later, or never."""
        self._schedule = schedule
        self._happens = happens

    @contextmanager
    def running(self) -> Iterator[None]:
        """Futures and tasks that are made meanwhile are of this loop."""
        before = events._get_running_loop()
        events._set_running_loop(self)  # type: ignore[arg-type]
        try:
            yield
        finally:
            events._set_running_loop(before)

    def do(self, action: Action) -> None:
        """The same for one action; it comes too often for a context."""
        before = events._get_running_loop()
        events._set_running_loop(self)  # type: ignore[arg-type]
        try:
            action()
        finally:
            events._set_running_loop(before)

    def time(self) -> float:
        return self._schedule.now_ms / 1000

    def create_future(self) -> asyncio.Future[Any]:
        loop: Any = self
        return asyncio.Future(loop=loop)

    def create_task(self, coroutine: Coroutine[Any, Any, Any], **_: Any) -> asyncio.Task[Any]:
        loop: Any = self
        self._schedule.begun.append(coroutine)
        return asyncio.Task(coroutine, loop=loop)

    def call_soon(
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> _Handle:
        return self._call(0, callback, arguments, context)

    def call_later(
        self,
        delay_s: float,
        callback: Callable[..., object],
        *arguments: Any,
        context: Context | None = None,
    ) -> _Handle:
        return self._call(int(delay_s * 1000), callback, arguments, context)

    def call_at(
        self, at_s: float, callback: Callable[..., object], *arguments: Any, **more: Any
    ) -> _Handle:
        return self.call_later(max(at_s - self.time(), 0), callback, *arguments, **more)

    def _call(
        self,
        delay_ms: int,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        context: Context | None,
    ) -> _Handle:
        handle = _Handle()

        def run() -> None:
            if handle.is_cancelled:
                return
            if context is None:
                self.do(lambda: callback(*arguments))
            else:
                self.do(lambda: context.run(callback, *arguments))

        self._schedule.after(delay_ms, lambda: self._happens(run))
        return handle

    def run_in_executor(
        self, _: object, function: Callable[..., Any], *arguments: Any
    ) -> asyncio.Future[Any]:
        """A thread does it some time from now; what it has done outlives the process."""
        done = self.create_future()

        def finish(result: Any, error: Exception | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

        def run() -> None:
            result = error = None
            try:
                result = function(*arguments)
            except Exception as failure:
                error = failure
            self.call_later(self._schedule.delay_ms(2, 40) / 1000, finish, result, error)

        self._schedule.after(self._schedule.delay_ms(3, 60), lambda: self._happens(run))
        return done

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A task has failed; of one that did not end, as its process has ended, nothing is said."""
        error = context.get("exception")
        if error is not None and isinstance(context.get("future"), asyncio.Task):
            self._schedule.break_off(Crash(f"{context.get('message')}: {error!r}"))
