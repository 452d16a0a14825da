"""How two sides are compared: alternating rounds, medians, spread, and a verdict.

Machines drift: memory is touched for the first time, pages are written back, neighbours wake
up. So the sides take turns in every round, in changing order, and what is reported is the
median of the ratios of rounds, which a drift that hits both sides leaves alone.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

Metrics = Mapping[str, float]
_WARMUP_ROUNDS_MAX = 40
_WORTH_MENTIONING = 0.03  # a gain below this is noise
Sides = Mapping[str, Callable[[], Metrics]]


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    rounds: int
    warmup: int
    seconds: float
    directory: Path
    scale: float = (
        1.0  # of sizes that are given: those of `compaction`, `spark`, `stalls` and `seeing`
    )
    output: Path = Path("build/bench")
    rows: tuple[str, ...] = ()  # which of those that a benchmark has; none: all


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
        """Whether target or limit are kept; None without either."""
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
    """Warm both sides up, then run them in turns; the first of `sides` is ours."""
    (our_name, ours), (their_name, theirs) = sides.items()
    collected: dict[str, list[Metrics]] = {our_name: [], their_name: []}
    turns = [(our_name, ours), (their_name, theirs)]

    def measure(label: str, name: str, run: Callable[[], Metrics]) -> Metrics:
        measured = run()
        numbers = ", ".join(f"{measured[each.name]:,.4g} {each.unit}" for each in metrics)
        print(f"{bench}, {scenario}, {label}: {name}: {numbers}", file=sys.stderr, flush=True)
        return measured

    judged = [each for each in metrics if (each.target, each.limit) != (None, None)]
    for name, run in turns:
        _warm_up(
            judged or metrics[:1], functools.partial(measure, "warm-up", name, run), options.warmup
        )
    for number in range(options.rounds):
        for name, run in turns if number % 2 == 0 else reversed(turns):
            collected[name].append(measure(f"round {number + 1}", name, run))
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


def _warm_up(metrics: Sequence[Metric], measure: Callable[[], Metrics], patience: int) -> None:
    """Run until no metric was better than its best before in `patience` rounds in a row.

    A virtual machine compiles for a minute or more: a fixed number of rounds would compare a
    broker that is warm with one that is not. Nor is the rate alone a sign: where the client is
    the slower side it stands still while the cost of a request still falls.
    """
    best: dict[str, float] = {}
    rounds_without_gain = 0
    for _ in range(_WARMUP_ROUNDS_MAX):
        if rounds_without_gain >= patience:
            return
        measured = measure()
        gained = False
        for metric in metrics:
            value, before = measured[metric.name], best.get(metric.name)
            gain = _gain(metric, value, before)
            gained |= gain > _WORTH_MENTIONING
            if before is None or gain > 0:
                best[metric.name] = value
        rounds_without_gain = 0 if gained else rounds_without_gain + 1


def _gain(metric: Metric, value: float, before: float | None) -> float:
    """How much better a value is than the best before it, as a share; all of it for the first."""
    if not before or not value:
        return 1.0 if before is None else 0.0
    return value / before - 1 if metric.higher_is_better else before / value - 1


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
