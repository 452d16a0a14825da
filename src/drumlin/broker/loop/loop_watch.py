"""A watch on the event loop: measures its turns, and logs which code made one long.

A broker serves all its clients on one loop, turn by turn: code that makes a turn long makes all
clients wait. The loop's selector measures each turn with two clock reads, and after a long one
returns fewer of the ready connections. A separate thread regularly checks for a long turn, and
notes which code the loop's thread is running. It never pauses the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import math
import select
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

from drumlin.broker.loop.measures import Kind, Measure, Sample

_log = logging.getLogger(__name__)

#: A longer turn is logged, with the code that was running.
SLOW_S: Final = 0.05
#: A turn is counted under the longest of these that it exceeds.
_STEPS_S: Final = (0.01, SLOW_S, 0.25, 1.0)
#: Ready connections that are served in one turn, at most; fewer after a long turn, as the work for
#: one has no bound.
_EVENTS_PER_TURN: Final = 32
_EVENTS_PER_LONG_TURN: Final = 4
_LONG_S: Final = 0.002
_Epoll: Final = getattr(selectors, "EpollSelector", ())
_LOOK_INTERVAL_S: Final = 0.025
#: After this time the running code is noted, as the turn may become a slow one.
_SUSPECT_S: Final = 0.03
#: Before this time a turn has used hardly any processor time.
_YOUNG_S: Final = 0.003
_LOG_INTERVAL_S: Final = 1.0
#: Pause between two warnings that the machine is too busy.
_STARVED_INTERVAL_S: Final = 60.0
_LONGEST_WITHIN_S: Final = 60.0
_FRAMES_SHOWN: Final = 12
_NO_TURN: Final = (0.0, "")
_PREFIX: Final = "drumlin_event_loop_"
_SOURCES: Final = Path(__file__).parents[3]


class LoopWatch:
    """Make the loop with `new_loop`; `begin` before clients can connect; `end` stops the thread."""

    def __init__(self) -> None:
        self._selector = _TimingSelector()
        self._looker: threading.Thread | None = None
        self._may_end = threading.Event()

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """Create the loop to watch."""
        return _WatchedLoop(self._selector)

    def begin(self) -> None:
        """Measure turns and watch for slow ones, from the next turn on. Call it on the loop."""
        self._selector.counts_from = time.monotonic()
        self._selector.queued_s = _RunQueue(threading.get_native_id()).waited_s
        loop_thread = threading.get_ident()
        self._looker = threading.Thread(
            target=self._look, args=(loop_thread,), name="loop-watch", daemon=True
        )
        self._looker.start()

    def end(self) -> None:
        """Stop watching."""
        self._selector.counts_from = math.inf
        self._may_end.set()

    @property
    def has_looked(self) -> bool:
        """Whether the loop's processor time before a turn has been measured."""
        return self._selector.worked_s is not None

    def measures(self) -> Iterator[Measure]:
        """The metrics for Prometheus."""
        selector = self._selector
        for name, documentation, value in (
            ("turns", "Turns of the event loop.", selector.turns),
            ("busy_seconds", "Time that the event loop worked.", selector.busy_s),
        ):
            yield Measure(
                _PREFIX + name, Kind.COUNTER, documentation, (), (Sample((), float(value)),)
            )
        yield Measure(
            f"{_PREFIX}slow_turns",
            Kind.COUNTER,
            "Turns that took longer than this many seconds, in which no client was served.",
            ("longer_than",),
            tuple(
                Sample((f"{step:g}",), float(count))
                for step, count in zip(_STEPS_S, selector.slow_turns, strict=True)
            ),
        )
        yield Measure(
            f"{_PREFIX}longest_turn_seconds",
            Kind.GAUGE,
            "The longest turn of the last minute or two: the most that anything had to wait.",
            (),
            (Sample((), selector.longest(time.monotonic())[0]),),
        )
        took_s, code = selector.longest(time.monotonic())
        yield Measure(
            f"{_PREFIX}longest_turn_code_seconds",
            Kind.GAUGE,
            "The same, with the function that was running, if it was seen.",
            ("code",),
            (Sample((code,), took_s),),
        )

    def _look(self, loop_thread: int) -> None:
        selector = self._selector
        processor_clock = time.pthread_getcpuclockid(loop_thread)
        noted: float | None = None
        while not self._may_end.wait(_LOOK_INTERVAL_S):
            began = selector.began
            lasted_s = 0.0 if began is None else time.monotonic() - began
            if lasted_s < _YOUNG_S:
                selector.worked_s = time.clock_gettime(processor_clock)
                selector.queued_before_s = selector.queued_s()
            if began is None or began == noted or lasted_s < _SUSPECT_S:
                continue
            frame = sys._current_frames().get(loop_thread)
            if frame is not None and selector.began == began:
                selector.place = (began, place_of(frame), culprit_of(frame))
                noted = began


class _WatchedLoop(asyncio.SelectorEventLoop):
    def __init__(self, selector: _TimingSelector) -> None:
        super().__init__(selector)
        self._timing = selector

    @property
    def turn_began(self) -> float | None:
        """The time at which the current turn began; see `turns.is_long_turn`."""
        return self._timing.began


class _RunQueue:
    """The time for which a thread was ready to run but had no processor."""

    def __init__(self, thread_id: int) -> None:
        self._path = Path(f"/proc/self/task/{thread_id}/schedstat")

    def waited_s(self) -> float | None:
        """The time in seconds; None if this kernel does not count it."""
        try:
            return int(self._path.read_bytes().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return None


class _TimingSelector(selectors.DefaultSelector):
    """A selector that measures turns; a turn is the time between two calls of `select`."""

    def __init__(self) -> None:
        super().__init__()
        self.began: float | None = None
        self.turns = 0
        self.busy_s = 0.0
        self.slow_turns = [0] * len(_STEPS_S)
        self.counts_from = math.inf  # before this time, no client waits for a turn
        #: When the turn began, the code seen in it, and the function that it is of.
        self.place: tuple[float, str, str] | None = None
        self.worked_s: float | None = None  # the loop's processor time, read between turns
        self.queued_s: Callable[[], float | None] = lambda: None
        self.queued_before_s: float | None = None  # read between turns, too
        #: The longest turn, and its code, in this minute, and in the one before.
        self._longest: list[tuple[float, str]] = [_NO_TURN, _NO_TURN]
        self._minute = 0.0
        self._events_max = _EVENTS_PER_TURN
        self._logged_at = self._starved_at = 0.0
        self._not_logged = self._starved = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.began is not None:
            took_s = time.monotonic() - self.began
            self.turns += 1
            self.busy_s += took_s
            if took_s > _LONG_S:
                self._events_max = max(_EVENTS_PER_LONG_TURN, self._events_max // 2)
            elif self._events_max < _EVENTS_PER_TURN:
                self._events_max *= 2
            if took_s > _STEPS_S[0] and self.began >= self.counts_from:
                self._count(self.began, took_s)
            self.began = None
        events = self._next_events(timeout)
        self.began = time.monotonic()
        return events

    def _next_events(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Some of the ready connections: the next call of epoll returns the others first."""
        if not isinstance(self, _Epoll):
            return super().select(timeout)
        # Like the standard library's `select`, except for the last argument.
        epoll, keys = cast(Any, self)._selector, cast(Any, self)._fd_to_key
        wait_s = -1.0 if timeout is None else max(0.0, math.ceil(timeout * 1e3) * 1e-3)
        try:
            ready = epoll.poll(wait_s, self._events_max)
        except InterruptedError:
            return []
        events = []
        for descriptor, event in ready:
            key = keys.get(descriptor)
            if key is not None:
                mask = (event & ~select.EPOLLIN and selectors.EVENT_WRITE) | (
                    event & ~select.EPOLLOUT and selectors.EVENT_READ
                )
                events.append((key, mask & key.events))
        return events

    def longest(self, now: float) -> tuple[float, str]:
        """The longest turn of this minute and the one before, and its code, if it was seen."""
        return _NO_TURN if now - self._minute > 2 * _LONGEST_WITHIN_S else max(self._longest)

    def _count(self, began: float, took_s: float) -> None:
        for number, step in enumerate(_STEPS_S):
            self.slow_turns[number] += took_s > step
        if began - self._minute > _LONGEST_WITHIN_S:
            is_next = began - self._minute <= 2 * _LONGEST_WITHIN_S
            self._longest = [_NO_TURN, self._longest[0] if is_next else _NO_TURN]
            self._minute = began
        is_seen = self.place is not None and self.place[0] == began
        code = self.place[2] if self.place is not None and is_seen else ""
        self._longest[0] = max(self._longest[0], (took_s, code))
        if took_s > SLOW_S:
            self._log_slow(began, took_s)

    def _log_slow(self, began: float, took_s: float) -> None:
        if self._is_starved(began, took_s):
            return
        if began - self._logged_at < _LOG_INTERVAL_S:
            self._not_logged += 1
            return
        place = "an unknown place"
        if self.place is not None and self.place[0] == began:
            place = self.place[1]
        also = f" ({self._not_logged} more since the last warning)" if self._not_logged else ""
        if self.worked_s is not None:
            worked_s = time.thread_time() - self.worked_s
            if worked_s < took_s / 2:
                also = f"; it had the processor for at most {worked_s * 1e3:.0f} ms{also}"
        _log.warning("the event loop was held up for %.0f ms by %s%s", took_s * 1e3, place, also)
        self._logged_at, self._not_logged = began, 0

    def _is_starved(self, began: float, took_s: float) -> bool:
        """Whether most of a turn was spent waiting for a processor: then no code is at fault."""
        now_s, before_s = self.queued_s(), self.queued_before_s
        if now_s is None or before_s is None or now_s - before_s < took_s / 2:
            return False
        if self._starved_at and began - self._starved_at < _STARVED_INTERVAL_S:
            self._starved += 1
            return True
        also = f" ({self._starved} more turns since the last warning)" if self._starved else ""
        _log.warning(
            "the machine is too busy: the event loop waited for a processor during most of a turn "
            "of %.0f ms%s",
            took_s * 1e3,
            also,
        )
        self._starved_at, self._starved = began, 0
        return True


def culprit_of(frame: FrameType) -> str:
    """The innermost function of Drumlin's that a thread runs, else the innermost of all; without
    its line, so that there are few.
    """
    ours: FrameType | None = frame
    while ours is not None:
        path = Path(ours.f_code.co_filename)
        if path.is_relative_to(_SOURCES):
            return f"{ours.f_code.co_qualname} ({path.relative_to(_SOURCES)})"
        ours = ours.f_back
    return f"{frame.f_code.co_qualname} ({Path(frame.f_code.co_filename).name})"


def place_of(frame: FrameType | None) -> str:
    """The stack of a thread on one line, its innermost function first."""
    shown: list[str] = []
    while frame is not None and len(shown) < _FRAMES_SHOWN:
        code = frame.f_code
        path = Path(code.co_filename)
        if path.name == "base_events.py":  # asyncio's own; frames further out do not matter
            break
        if path.is_relative_to(_SOURCES):
            path = path.relative_to(_SOURCES)
        shown.append(f"{code.co_qualname} ({path}:{frame.f_lineno})")
        frame = frame.f_back
    return " < ".join(shown) or "the loop itself"
