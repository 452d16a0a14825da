"""Produce and fetch through TLS: by size over one connection, and small ones over many."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from bench import fetch, produce
from bench.brokers import Broker
from bench.harness import Comparison, Metric, Options, compare
from bench.load import GENERATOR
from bench.real_clients.crowds import crowd

_SIZES = {"64k": ("64 KiB", 64 << 10), "1m": ("1 MiB", 1 << 20)}
_IN_FLIGHT = 5
_RATE_GOAL, _CPU_GOAL, _CROWD_CPU_GOAL = 1.2, 0.7, 1.0
_CLIENTS = 64


def _produce(size: str, brokers: Sequence[Broker], options: Options) -> list[Comparison]:
    name, batch_bytes = _SIZES[size]
    scenario = produce.Scenario(name, batch_bytes, 1000, _IN_FLIGHT, _RATE_GOAL)
    metrics = (
        Metric("rate", "requests/s", target=_RATE_GOAL),
        Metric("cpu", "broker CPU s/GB", higher_is_better=False, target=_CPU_GOAL),
        GENERATOR,
    )
    sides = {each.name: produce.round_of(each, scenario, options) for each in brokers}
    return compare("security", f"produce through TLS, {name}", metrics, sides, options)


def _fetch(size: str, brokers: Sequence[Broker], options: Options) -> list[Comparison]:
    name, batch_bytes = _SIZES[size]
    scenario = fetch.Scenario(name, batch_bytes, _IN_FLIGHT, _RATE_GOAL)
    metrics = (
        Metric("rate", "MB/s", target=_RATE_GOAL),
        Metric("cpu", "broker CPU s/GB", higher_is_better=False, target=_CPU_GOAL),
        GENERATOR,
    )
    with fetch.sides(brokers, scenario, options) as sides:
        return compare("security", f"fetch through TLS, {name}", metrics, sides, options)


def _crowd(brokers: Sequence[Broker], options: Options) -> list[Comparison]:
    metrics = (
        Metric("rate", "requests/s"),
        Metric("cpu", "broker CPU µs/request", higher_is_better=False, target=_CROWD_CPU_GOAL),
        GENERATOR,
    )
    sides = {each.name: crowd(_CLIENTS, each, options) for each in brokers}
    scenario = f"produce through TLS, 300 B, {_CLIENTS} connections"
    return compare("security", scenario, metrics, sides, options)


ROWS: dict[str, Callable[[Sequence[Broker], Options], list[Comparison]]] = {
    **{f"produce_{size}": functools.partial(_produce, size) for size in _SIZES},
    **{f"fetch_{size}": functools.partial(_fetch, size) for size in _SIZES},
    "crowd": _crowd,
}
