"""Helper threads of one cleaning, for tasks that release the GIL, with ordered results.

The cleaner's own thread submits tasks, takes their results in the order of submission, and runs
tasks itself while it waits. No thread exists before the first task or after `close`. Tasks must be
independent of each other.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
#: The maximum number of helpers: more would wait for the GIL and for the thread that takes results.
_HELPERS_MAX: Final = 3
#: The number of tasks per thread that are running, or whose results are not taken yet.
_TASKS_EACH: Final = 2


def helpers_for(cleaner_threads: int) -> int:
    """The number of helpers for each cleaner, so that all threads together fit the cores."""
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


class Executor:
    """The helper threads. Only one thread may call the methods."""

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
        """The limit of tasks whose results are not taken yet."""
        return _TASKS_EACH * (self._helpers + 1)

    def submit(self, function: Callable[[], Any]) -> _Task:
        """Add a task, which the first free thread runs."""
        task = _Task(function)
        with self._lock:
            self._waiting.append(task)
            self._is_wanted.notify()
        if len(self._threads) < self._helpers:
            thread = threading.Thread(target=self._work, name="cleaner-helper", daemon=True)
            # If no thread can be started, the cleaner's own thread does all the work.
            with contextlib.suppress(RuntimeError, MemoryError):
                thread.start()
                self._threads.append(thread)
        return task

    def result(self, task: _Task) -> Any:
        """Wait for the result or exception of a task, and run other tasks in the meantime."""
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
            del task  # else this frame would keep its result alive
            with self._lock:
                self._running -= 1
                self._is_done.notify()

    def cancel(self) -> None:
        """Drop the waiting tasks, and wait until the running ones have ended."""
        with self._lock:
            self._waiting.clear()
            while self._running:
                self._is_done.wait()

    def close(self) -> None:
        """Cancel all tasks, and end all threads."""
        self.cancel()
        with self._lock:
            self._is_closed = True
            self._is_wanted.notify_all()
        for thread in self._threads:
            thread.join()
        self._threads.clear()


class OrderedResults(Generic[T]):
    """Results in the order in which they were added, some of them computed by tasks.

    A result is added directly, or as a task that computes it. No task is left running when the
    `with` block ends early or by an exception.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._steps: deque[tuple[_Task | None, T | None]] = deque()
        self._tasks = 0

    def __enter__(self) -> OrderedResults[T]:
        return self

    def __exit__(self, *error: object) -> None:
        if self._steps:
            self._steps.clear()
            self._executor.cancel()

    def add(self, step: T) -> Iterator[T]:
        """Add a result. Like the methods below, yields the results whose turn it is."""
        self._steps.append((None, step))
        return self._take(self._executor.tasks_max)

    def add_task(self, function: Callable[[], T]) -> Iterator[T]:
        """Add a task that computes a result."""
        self._steps.append((self._executor.submit(function), None))
        self._tasks += 1
        return self._take(self._executor.tasks_max)

    def finish(self, function: Callable[[], T] | None = None) -> Iterator[T]:
        """Yield all remaining results, then that of `function`, run here if no task is left."""
        if function is not None and self._tasks:
            yield from self.add_task(function)
        elif function is not None:
            yield from self._take(0)
            yield function()
        yield from self._take(0)

    def _take(self, tasks_left: int) -> Iterator[T]:
        # A finished result is yielded once it is the first.
        while self._steps and (self._tasks > tasks_left or self._steps[0][0] is None):
            yield self._next()

    def _next(self) -> T:
        task, step = self._steps.popleft()
        if task is None:
            assert step is not None
            return step
        self._tasks -= 1
        result: T = self._executor.result(task)
        return result
