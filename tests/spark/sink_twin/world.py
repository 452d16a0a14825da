"""The scheduler: processes whose every request may be delayed, lost, or their last.

All that happens follows from a seed. A process that is killed may leave a request behind that is
done later; one that sleeps wakes as a zombie; an answer may be lost after the request was done.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

from drumlin.spark.writing.protocol import requests as ask
from drumlin.spark.writing.protocol.sink_errors import RequestFailed
from spark.sink_twin.cluster import LATER, Cluster

#: Before these a sleep is most dangerous: they act on what was found out earlier.
_DECISIVE = (ask.InitTask, ask.InitDriver, ask.CommitDriver, ask.CommitAll, ask.FenceAll)


class Wait(NamedTuple):
    """-> None, when the condition holds, or it is so late."""

    until: Callable[[], bool]
    at: float = float("inf")


@dataclass(frozen=True)
class Weather:
    """How rough a run is; probabilities are per step."""

    kill: float
    sleep: float
    refuse: float  # not done, and told so after a while
    lose: float  # done, and the answer lost
    long_sleep: float  # of sleeps, those of minutes

    @classmethod
    def of(cls, random_: random.Random) -> Weather:
        def rough(most: float) -> float:
            return random_.choice((0.0, most / 8, most / 3, most))

        return cls(rough(0.02), rough(0.1), rough(0.02), rough(0.03), rough(0.6))


class Process:
    """A program, at its next request."""

    def __init__(self, name: str, program: Generator[Any, Any, Any]) -> None:
        self.name = name
        self._program = program
        self.request: Any = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_over = False
        self.is_killed = False
        self.asleep_until = 0.0
        self.is_safe = False  # nothing happens to it
        self.proceed(None)

    def proceed(self, answer: Any, error: Exception | None = None) -> None:
        try:
            if error is not None:
                self.request = self._program.throw(error)
            else:
                self.request = self._program.send(answer)
        except StopIteration as stop:
            self.result, self.is_over = stop.value, True
        except AssertionError:
            raise
        except Exception as failure:
            self.error, self.is_over = failure, True

    def kill(self) -> None:
        self.is_over = self.is_killed = True
        self._program = iter(())  # type: ignore[assignment]


class World:
    """Processes and a cluster, moved on by a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.cluster = Cluster()
        self.weather = Weather.of(self.random)
        self.processes: list[Process] = []
        self._ghosts: list[Any] = []
        self.steps = 0
        self.is_calm = False
        self.trace: list[str] = []

    def start(self, name: str, program: Generator[Any, Any, Any]) -> Process:
        process = Process(name, program)
        if not process.is_over:
            self.processes.append(process)
        return process

    def run(self, until: Callable[[], bool], steps_max: int = 60_000) -> None:
        """
        Raises:
            TimeoutError: it does not come to an end.
        """
        while not until():
            self.steps += 1
            if self.steps > steps_max:
                raise TimeoutError("no end: " + ", ".join(p.name for p in self.processes))
            self._step()

    def _step(self) -> None:
        self.processes = [each for each in self.processes if not each.is_over]
        cluster, chance = self.cluster, self.random.random()
        cluster.pass_time(self.random.expovariate(20))
        if chance < 0.3:
            prepared = cluster.prepared()
            if prepared:
                cluster.write_markers(self.random.choice(prepared))
                return
        if chance < 0.32:
            cluster.compact()
        elif chance < 0.3205 and not self.is_calm:
            cluster.delete_group()
        elif chance < 0.45:
            cluster.load_offsets()
        if self._ghosts and chance > 0.9:
            ghost = self._ghosts.pop(self.random.randrange(len(self._ghosts)))
            self._haunt(ghost)
            return
        ready = [each for each in self.processes if self._is_ready(each)]
        if ready:
            self._move(self.random.choice(ready))
        else:
            self._idle()

    def _idle(self) -> None:
        """No process can do anything now: markers are written, or one wakes."""
        self.cluster.settle()
        wakes = [p.asleep_until for p in self.processes if p.asleep_until > self.cluster.now]
        wakes += [p.request.at for p in self.processes if isinstance(p.request, Wait)]
        span = min(wakes, default=float("inf")) - self.cluster.now
        self.cluster.pass_time(span if 0.0 < span < 1e8 else 5.0)

    def _is_ready(self, process: Process) -> bool:
        if process.asleep_until > self.cluster.now:
            return False
        request = process.request
        if not isinstance(request, Wait):
            return True
        return self.cluster.now >= request.at or request.until()

    def _move(self, process: Process) -> None:
        request, weather = process.request, self.weather
        if not self.is_calm and not process.is_safe:
            weight = 4 if isinstance(request, _DECISIVE) else 1
            if self.random.random() < weather.sleep * weight:
                is_long = self.random.random() < weather.long_sleep
                spans = (60.0, 300.0, 1000.0)
                span = self.random.choice(spans) if is_long else self.random.random() * 20
                process.asleep_until = self.cluster.now + span
                self._tell(process, f"sleeps {span:.0f} s before", request)
                return
            if self.random.random() < weather.kill:
                self._tell(process, "is killed before", request)
                process.kill()
                if not isinstance(request, Wait) and self.random.random() < 0.5:
                    self._ghosts.append(request)
                return
        if isinstance(request, Wait):
            process.proceed(None)
            return
        if not self.is_calm and self.random.random() < weather.refuse:
            is_late = self.random.random() < 0.3
            self._tell(process, "is refused, or given up on," if is_late else "is refused", request)
            if is_late:
                self._ghosts.append(request)
            process.proceed(*self._failed(request))
            return
        try:
            answer = self.cluster.perform(request)
        except RequestFailed as error:
            self._tell(process, f"fails ({error})", request)
            process.proceed(None, error)
            return
        if answer is LATER:
            return
        if not self.is_calm and self.random.random() < weather.lose:
            self._tell(process, "does, unanswered,", request)
            process.proceed(*self._failed(request))
            return
        self._tell(process, "does", request)
        process.proceed(answer)

    def _failed(self, request: Any) -> tuple[Any, Exception | None]:
        """The outcome of a request without an answer. Of many, some may have one."""
        if isinstance(request, ask.CommitAll):
            answered = [each for each in request.opened if self.random.random() < 0.3]
            outcomes = {e: self.cluster.perform(ask.CommitAll((e,))) for e in answered}
            found = {e: each[e] for e, each in outcomes.items() if each is not LATER}
            return dict.fromkeys(request.opened, "unanswered") | found, None
        if isinstance(request, ask.FenceAll):
            for each in request.transactional_ids:
                if self.random.random() < 0.3:
                    self.cluster.perform(ask.FenceAll((each,)))
            return 0, None
        return None, RequestFailed("there was no answer")

    def _haunt(self, request: Any) -> None:
        """What a dead process has sent arrives."""
        self.trace.append(f"{self.cluster.now:9.2f} a dead process does {request}")
        try:
            if self.cluster.perform(request) is LATER:
                self._ghosts.append(request)
        except RequestFailed:
            pass

    def _tell(self, process: Process, what: str, request: Any) -> None:
        if not isinstance(request, Wait):
            self.trace.append(f"{self.cluster.now:9.2f} {process.name} {what} {request}")
