"""What counting and scrapes cost the fast ways: processor time of a request, with and without."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Final

from bench import fetch, produce
from bench.brokers import Broker
from bench.harness import Comparison, Metric, Options, compare
from bench.load import GENERATOR
from bench.seeing.crowded import interval_s, metered, scraped, unmetered

_GOAL: Final = 1.02
_ROUNDS_MAX: Final = 5
_WARMUP_MAX: Final = 1
_CPU: Final = Metric("cpu", "broker CPU µs/request", higher_is_better=False, target=_GOAL)
_SMALL: Final = 300
_LARGE: Final = 64 << 10


@contextlib.contextmanager
def _both(options: Options) -> Iterator[tuple[Broker, Broker]]:
    with (
        metered("counted", options, "drumlin") as ours,
        unmetered("uncounted", options, "bench.seeing.uncounted") as theirs,
        scraped(ours, options),
    ):
        yield ours.broker, theirs


def _with_a_scrape(options: Options) -> Options:
    """Rounds that take as long as it is from one scrape to the next."""
    return dataclasses.replace(
        options,
        rounds=min(options.rounds, _ROUNDS_MAX),
        warmup=min(options.warmup, _WARMUP_MAX),
        seconds=interval_s(options),
    )


def _produce(options: Options) -> list[Comparison]:
    options = _with_a_scrape(options)
    scenario = produce.Scenario("300 B", _SMALL, None, 16, 1.0)
    with _both(options) as brokers:
        sides = {
            each.name: produce.per_request(produce.round_of(each, scenario, options), _SMALL)
            for each in brokers
        }
        metrics = (Metric("rate", "requests/s"), _CPU, GENERATOR)
        return compare("seeing", "produce 300 B, with metrics", metrics, sides, options)


def _fetch(options: Options) -> list[Comparison]:
    options = _with_a_scrape(options)
    scenario = fetch.Scenario("64 KiB", _LARGE, 5, 1.0)
    with _both(options) as brokers, fetch.sides(brokers, scenario, options) as found:
        sides = {name: produce.per_request(each, _LARGE) for name, each in found.items()}
        metrics = (Metric("rate", "MB/s"), _CPU, GENERATOR)
        return compare("seeing", "fetch 64 KiB, with metrics", metrics, sides, options)


ROWS: dict[str, Callable[[Options], list[Comparison]]] = {"produce": _produce, "fetch": _fetch}
