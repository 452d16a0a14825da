"""How two sides are compared: alternating rounds, medians, spread, and a verdict.

Machines drift: memory is touched for the first time, pages are written back, neighbours wake
up. So the sides take turns in every round, in changing order, and what is reported is the
median of the ratios of rounds, which a drift that hits both sides leaves alone.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

Metrics = Mapping[str, float]
Sides = Mapping[str, Callable[[], Metrics]]


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    rounds: int
    warmup: int
    seconds: float
    directory: Path


@dataclasses.dataclass(frozen=True)
class Metric:
    """One number of a round: `target` is the ratio to reach, `limit` what ours may be at most."""

    name: str
    unit: str
    higher_is_better: bool = True
    target: float | None = None
    limit: float | None = None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One metric of one scenario: ours and theirs, round by round."""

    bench: str
    scenario: str
    metric: Metric
    our_name: str
    their_name: str
    ours: list[float]
    theirs: list[float]

    @property
    def our_median(self) -> float:
        return statistics.median(self.ours)

    @property
    def their_median(self) -> float:
        return statistics.median(self.theirs)

    @property
    def ratios(self) -> list[float]:
        return [our / their for our, their in zip(self.ours, self.theirs, strict=True) if their]

    @property
    def ratio(self) -> float:
        """Median of the ratios of rounds."""
        return statistics.median(self.ratios) if self.ratios else float("nan")

    @property
    def spread(self) -> tuple[float, float]:
        """Smallest and largest ratio of a round."""
        return (min(self.ratios), max(self.ratios)) if self.ratios else (self.ratio, self.ratio)

    @property
    def reached(self) -> bool | None:
        """Whether target or limit are kept; None where there is none."""
        if self.metric.limit is not None:
            return self.our_median <= self.metric.limit
        if self.metric.target is None:
            return None
        if self.metric.higher_is_better:
            return self.ratio >= self.metric.target
        return self.ratio <= self.metric.target

    def as_json(self) -> dict[str, Any]:
        return {
            **dataclasses.asdict(self),
            "ratio": self.ratio,
            "spread": self.spread,
            "reached": self.reached,
        }


def compare(
    bench: str,
    scenario: str,
    metrics: Sequence[Metric],
    sides: Sides,
    options: Options,
) -> list[Comparison]:
    """Run both sides in turns; the first of `sides` is ours."""
    (our_name, ours), (their_name, theirs) = sides.items()
    collected: dict[str, list[Metrics]] = {our_name: [], their_name: []}
    turns = [(our_name, ours), (their_name, theirs)]
    for number in range(-options.warmup, options.rounds):
        for name, run in turns if number % 2 == 0 else reversed(turns):
            measured = run()
            if number >= 0:
                collected[name].append(measured)
            _say(bench, scenario, number, name, metrics, measured)
    return [
        Comparison(
            bench,
            scenario,
            metric,
            our_name,
            their_name,
            [measured[metric.name] for measured in collected[our_name]],
            [measured[metric.name] for measured in collected[their_name]],
        )
        for metric in metrics
    ]


def _say(
    bench: str,
    scenario: str,
    number: int,
    side: str,
    metrics: Sequence[Metric],
    measured: Metrics,
) -> None:
    label = "warm-up" if number < 0 else f"round {number + 1}"
    numbers = ", ".join(f"{measured[m.name]:,.4g} {m.unit}" for m in metrics)
    print(f"{bench}, {scenario}, {label}: {side}: {numbers}", file=sys.stderr, flush=True)


class Stopwatch:
    """Wall time of a block, and the processor time that a broker and we ourselves spent."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self.own_cpu_seconds = 0.0

    def __enter__(self) -> Self:
        self._cpu = cpu_seconds(self._pid)
        self._own_cpu = time.process_time()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start
        self.cpu_seconds = cpu_seconds(self._pid) - self._cpu
        self.own_cpu_seconds = time.process_time() - self._own_cpu


_TICKS_PER_SECOND = 100  # what /proc counts in: USER_HZ, the same on every Linux


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
