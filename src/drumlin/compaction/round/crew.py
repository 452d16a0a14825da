"""Threads that help one cleaning with work that releases the GIL; results come in order.

The cleaner's own thread submits tasks, takes their results in the order of submission, and works on
tasks itself while it waits. There are no threads before the first task, and none after `close`.
Tasks know nothing of each other, and a crew nothing of what they do.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
#: More would wait for the GIL, and for the thread that takes the results.
_HELPERS_MAX: Final = 3
#: Tasks per thread that are under way, or done and not taken.
_TASKS_EACH: Final = 2


def helpers_for(cleaner_threads: int) -> int:
    """Helpers for each cleaner: all threads together are no more than the cores."""
    cores = len(os.sched_getaffinity(0))
    return min(_HELPERS_MAX, max(0, cores // max(1, cleaner_threads) - 1))


class _Task:
    """A function, and its result or error."""

    __slots__ = ("error", "function", "is_done", "result")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_done = False

    def run(self) -> None:
        try:
            self.result = self.function()
        except BaseException as error:  # noqa: BLE001  raised where the result is taken
            self.error = error
        self.is_done = True


class Crew:
    """See the module. Only one thread may call it."""

    def __init__(self, helpers: int) -> None:
        self._helpers = helpers
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_wanted = threading.Condition(self._lock)
        self._is_done = threading.Condition(self._lock)
        self._waiting: deque[_Task] = deque()
        self._running = 0  # tasks in helpers
        self._is_closed = False

    @property
    def tasks_max(self) -> int:
        """How many tasks may be submitted whose results are not taken yet."""
        return _TASKS_EACH * (self._helpers + 1)

    def submit(self, function: Callable[[], Any]) -> _Task:
        """Add a task for the first free thread."""
        task = _Task(function)
        with self._lock:
            self._waiting.append(task)
            self._is_wanted.notify()
        if len(self._threads) < self._helpers:
            thread = threading.Thread(target=self._work, name="cleaner-helper", daemon=True)
            # Where there can be no more threads, the cleaner's own does all of it.
            with contextlib.suppress(RuntimeError, MemoryError):
                thread.start()
                self._threads.append(thread)
        return task

    def result(self, task: _Task) -> Any:
        """Return or raise what a task has returned or raised. Works on other tasks meanwhile."""
        while not task.is_done:
            with self._lock:
                if task.is_done:
                    break
                if not self._waiting:
                    self._is_done.wait()
                    continue
                next_task = self._waiting.popleft()
            next_task.run()
        if task.error is not None:
            raise task.error
        return task.result

    def _work(self) -> None:
        while True:
            with self._lock:
                while not self._waiting and not self._is_closed:
                    self._is_wanted.wait()
                if self._is_closed:
                    return
                task = self._waiting.popleft()
                self._running += 1
            task.run()
            del task  # else it would keep alive what its result's taker has let go
            with self._lock:
                self._running -= 1
                self._is_done.notify()

    def give_up(self) -> None:
        """Drop the waiting tasks; those under way have ended when this returns."""
        with self._lock:
            self._waiting.clear()
            while self._running:
                self._is_done.wait()

    def close(self) -> None:
        """Like `give_up`, and end all threads."""
        self.give_up()
        with self._lock:
            self._is_closed = True
            self._is_wanted.notify_all()
        for thread in self._threads:
            thread.join()
        self._threads.clear()


class InOrder(Generic[T]):
    """Steps, some done by a crew, which are taken in the order in which they were added.

    A step is added as it is, or as a task that returns it. No task is left when the block ends
    early, or with an error.
    """

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._steps: deque[tuple[_Task | None, T | None]] = deque()
        self._tasks = 0

    def __enter__(self) -> InOrder[T]:
        return self

    def __exit__(self, *error: object) -> None:
        if self._steps:
            self._steps.clear()
            self._crew.give_up()

    def add(self, step: T) -> Iterator[T]:
        """Add a finished step. Like the methods below, returns the steps whose turn it is."""
        self._steps.append((None, step))
        return self._take(self._crew.tasks_max)

    def add_task(self, function: Callable[[], T]) -> Iterator[T]:
        """Add a step to be done by the crew."""
        self._steps.append((self._crew.submit(function), None))
        self._tasks += 1
        return self._take(self._crew.tasks_max)

    def finish(self, function: Callable[[], T] | None = None) -> Iterator[T]:
        """All steps left. `function` is the last one; if it is the only task, it runs here."""
        if function is not None and self._tasks:
            yield from self.add_task(function)
        elif function is not None:
            yield from self._take(0)
            yield function()
        yield from self._take(0)

    def _take(self, tasks_left: int) -> Iterator[T]:
        # A finished step is returned as soon as no step before it is left.
        while self._steps and (self._tasks > tasks_left or self._steps[0][0] is None):
            yield self._next()

    def _next(self) -> T:
        task, step = self._steps.popleft()
        if task is None:
            assert step is not None
            return step
        self._tasks -= 1
        result: T = self._crew.result(task)
        return result
