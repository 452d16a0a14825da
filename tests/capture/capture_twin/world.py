"""Processes as threads, of which one runs at a time: a seed decides which, and what happens.

A process calls `pause` before and after whatever others may notice. There, anything may happen
first: it may be killed, and never come back.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable


class Killed(BaseException):
    """The process is no more; nothing that it does from now on has an effect."""


class Process:
    """A process, or the test itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.baton = threading.Semaphore(0)
        self.is_doomed = self.is_over = self.should_stop = False
        self.error: BaseException | None = None
        self.thread: threading.Thread | None = None


class World:
    """All that happens in one seed."""

    def __init__(self, seed: int, limit: int) -> None:
        self.random = random.Random(seed)
        self.processes: list[Process] = []
        self.steps = 0
        self.now_s = 1000.0
        self.trace: list[str] = []
        self.events: Callable[[], None] = lambda: None
        self._limit = limit
        self._test = Process("test")
        self._current = self._test
        self._until: Callable[[], bool] = lambda: True

    @property
    def current(self) -> Process:
        return self._current

    def note(self, text: str) -> None:
        self.trace.append(f"{self.steps:5} {self._current.name:6} {text}")

    def start(self, name: str, work: Callable[[Process], None]) -> Process:
        process = Process(name)

        def live() -> None:
            process.baton.acquire()
            try:
                if not process.is_doomed:
                    work(process)
            except Killed:
                pass
            except BaseException as error:
                process.error = error
            process.is_over = True
            self._current = self._pick(self._alive())
            self._current.baton.release()

        process.thread = threading.Thread(target=live, daemon=True)
        process.thread.start()
        self.processes.append(process)
        return process

    def run(self, until: Callable[[], bool]) -> None:
        """Let the processes run until something is true, which is looked at in each step.

        Raises:
            TimeoutError: it does not come to that.
        """
        self._until = until
        while not until() and self._alive():
            self._hand_over(self._test, self._pick(self._alive()))
            if self.steps > self._limit:
                raise TimeoutError(f"no end after {self.steps} steps")

    def end(self) -> None:
        """Kill all that is left."""
        self._until = lambda: False
        for each in self.processes:
            each.is_doomed = True
        while self._alive():
            self._hand_over(self._test, self._alive()[0])
        for each in self.processes:
            assert each.thread is not None
            each.thread.join()

    def pause(self) -> None:
        me = self._current
        if me.is_doomed:
            raise Killed
        self.steps += 1
        self.now_s += self.random.random() * 0.05
        self.events()
        pick = self._pick([me] if self.random.random() < 0.7 else self._alive())
        if pick is not me:
            self._hand_over(me, pick)
        if me.is_doomed:
            raise Killed

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.pause()

    def _alive(self) -> list[Process]:
        return [each for each in self.processes if not each.is_over]

    def _pick(self, alive: list[Process]) -> Process:
        if not alive or self._until() or self.steps > self._limit:
            return self._test
        return self.random.choice(alive)

    def _hand_over(self, me: Process, pick: Process) -> None:
        self._current = pick
        pick.baton.release()
        me.baton.acquire()
