"""One row of the table: rounds of both brokers in turns, each beside its neighbour."""

from __future__ import annotations

import math
import re
import statistics
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from bench.harness import Comparison, Metric, Options, cpu_seconds
from bench.stalls.neighbour import Neighbour, Place
from bench.stalls.steady import PER_SECOND, SteadyClient

CALM_GOAL = 2.0
_HELD_UP = re.compile(r"the event loop was held up for (\d+) ms by (.*)")
_PLACES = 3  # of the stack, the innermost first
_SETTLING_S = 0.3
_CALM_S = 1.0  # before the neighbour begins: machines drift, so each round has its own
_AT_THE_EDGE = 3  # requests that the neighbour may have met already
METRICS = (
    Metric("p50", "ms p50", higher_is_better=False),
    Metric("p99", "ms p99", higher_is_better=False),
    Metric("max", "ms max", higher_is_better=False, target=1.0),
    Metric("calm_p99", "ms p99 just before", higher_is_better=False),
    Metric("act", "ms of the neighbour's act", higher_is_better=False),
    Metric("cpu", "broker CPU ms an act", higher_is_better=False),
    Metric("late", "ms p99 sent late", higher_is_better=False),
)


class Measured(NamedTuple):
    """A round of one side, in ms."""

    p50: float
    p99: float
    max: float
    calm_p99: float  # before the neighbour began; nan where it is never calm
    act: float  # how long the neighbour's act took, the median
    cpu: float  # what an act cost the broker, and with it the steady client
    late: float  # p99 of how late the steady client itself was


class Row(NamedTuple):
    """What the rounds of one neighbour gave, Drumlin's and Kafka's."""

    name: str
    about: str
    ours: list[Measured]
    theirs: list[Measured]
    held_up: str  # by what our event loop was held up longest, as the broker says it

    def median(self, side: str, metric: str) -> float:
        rounds: list[Measured] = getattr(self, side)
        return statistics.median([float(getattr(each, metric)) for each in rounds])

    def against_calm(self, calm: Row | None) -> float | None:
        """Our p99 beside the neighbour to that before it, median of rounds.

        Where the neighbour is never quiet, the row `calm` says what was before.
        """
        if self is calm:
            return None
        ratios = [each.p99 / each.calm_p99 for each in self.ours]
        if any(math.isnan(each) for each in ratios):
            return self.median("ours", "p99") / calm.median("ours", "p99") if calm else None
        return statistics.median(ratios)

    def comparisons(self) -> list[Comparison]:
        return [
            Comparison(
                "stalls",
                self.name,
                metric,
                "Drumlin",
                "Kafka",
                [getattr(each, metric.name) for each in self.ours],
                [getattr(each, metric.name) for each in self.theirs],
            )
            for metric in METRICS
        ]


def about(kind: type[Neighbour]) -> str:
    """The first line of its docstring."""
    return (kind.__doc__ or "").splitlines()[0]


def measure(
    kind: type[Neighbour], places: Sequence[Place], steady: SteadyClient, options: Options
) -> Row:
    """All rounds of one row."""
    neighbours = [kind(place) for place in places]
    ours = places[0].broker.process
    said_before = ours.said()
    sides: tuple[list[Measured], list[Measured]] = ([], [])
    try:
        for each in neighbours:
            started = time.monotonic()
            each.prepare()
            _say(f"{kind.name}: {each.broker.name} prepared in {time.monotonic() - started:.1f} s")
        first = -1 if kind.is_warmed and options.warmup else 0
        for number in range(first, options.rounds):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            for side in order:
                measured = _round(neighbours[side], steady, options)
                label = "warm-up" if number < 0 else f"round {number + 1}"
                numbers = ", ".join(
                    f"{value:,.4g} {metric.unit}"
                    for metric, value in zip(METRICS, measured, strict=True)
                )
                _say(f"{kind.name}, {label}: {neighbours[side].broker.name}: {numbers}")
                if number >= 0:
                    sides[side].append(measured)
    finally:
        for each in neighbours:
            each.close()
    return Row(kind.name, about(kind), *sides, _longest_turn(ours.said()[len(said_before) :]))


def _round(neighbour: Neighbour, steady: SteadyClient, options: Options) -> Measured:
    neighbour.before_round()
    steady.begin(neighbour.broker, neighbour.place.steady_topic)
    calm_s = _CALM_S if neighbour.is_quiet else 0.0
    time.sleep(calm_s)
    acts_ms = []
    cpu_before_s = cpu_seconds(neighbour.broker.pid)
    deadline = time.monotonic() + options.seconds
    try:
        while True:
            started = time.monotonic()
            neighbour.act()
            acts_ms.append(1000 * (time.monotonic() - started))
            if neighbour.acts_once or time.monotonic() > deadline:
                break
        time.sleep(max(_SETTLING_S, deadline - time.monotonic()))
    finally:
        times = steady.end()
    cpu_ms = 1000 * (cpu_seconds(neighbour.broker.pid) - cpu_before_s)
    neighbour.after_round()
    calm = int(PER_SECOND * calm_s)
    answered_ms = times.answered_ms[calm:]
    return Measured(
        statistics.median(answered_ms),
        _p99(answered_ms),
        max(answered_ms),
        _p99(times.answered_ms[: calm - _AT_THE_EDGE]) if calm else math.nan,
        statistics.median(acts_ms),
        cpu_ms / len(acts_ms),
        _p99(times.sent_ms[calm:]),
    )


def _longest_turn(said: str) -> str:
    turns = [(int(milliseconds), by) for milliseconds, by in _HELD_UP.findall(said)]
    if not turns:
        return ""
    milliseconds, by = max(turns)
    places = " < ".join(by.split(" < ")[:_PLACES])
    return f"{milliseconds} ms by {places}"


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[98]


def _say(line: str) -> None:
    print(f"stalls, {line}", file=sys.stderr, flush=True)
