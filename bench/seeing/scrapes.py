"""How long a scrape keeps the event loop: in all, and in its longest turn."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bench.brokers import Broker
from bench.harness import Comparison, Metric, Options, cpu_seconds
from bench.seeing.crowded import Metered, metered
from rig.data.raw import RawClient

_SCRAPES: Final = 5  # of a round
_API_VERSIONS: Final = 3
_METRICS: Final = (
    Metric("loop", "ms of the loop's processor time a scrape", False, limit=50.0),
    Metric("turn", "ms, the longest turn", False, limit=10.0),
    Metric("cpu", "ms of processor time a scrape", False),
    Metric("wait", "ms, the longest wait of a client", False),
    Metric("took", "ms until it is fetched", False),
    Metric("page", "KB", False),
)


def scrape(options: Options) -> list[Comparison]:
    """Scrapes of a broker that is asked nothing else, but by one client for its versions."""
    turns = options.directory / "turns"
    turns.touch()
    rounds: dict[str, list[float]] = {each.name: [] for each in _METRICS}
    with metered("watched", options, "bench.turns.watched", str(turns)) as watched:
        watched.scrape()  # the first one loads the library
        for number in range(options.rounds):
            measured = _round(watched, turns)
            told = ", ".join(f"{measured[each.name]:.4g} {each.unit}" for each in _METRICS)
            print(f"seeing, scrape, round {number + 1}: {told}", file=sys.stderr, flush=True)
            for name, value in measured.items():
                rounds[name].append(value)
    scenario = f"a scrape, {5000 * options.scale:,.0f} partitions"
    nothing = [0.0] * options.rounds
    return [
        Comparison("seeing", scenario, each, "Drumlin", "-", rounds[each.name], nothing)
        for each in _METRICS
    ]


def _round(watched: Metered, turns: Path) -> dict[str, float]:
    broker, before = watched.broker, len(turns.read_bytes())
    began = _spent(broker)
    for _ in range(_SCRAPES):
        page = watched.scrape()
    spent = _spent(broker).since(began)
    began = _spent(broker)
    time.sleep(spent.wall_s)  # an idle broker does something, too
    idle = _spent(broker).since(began)
    with turns.open("rb") as file:
        file.seek(before)
        longest_ms = max((float(json.loads(line)["ms"]) for line in file), default=0.0)
    with _asking(broker) as waits:
        watched.scrape()
    return {
        "loop": max(0.0, spent.loop_ms - idle.loop_ms) / _SCRAPES,
        "turn": longest_ms,
        "cpu": max(0.0, spent.cpu_ms - idle.cpu_ms) / _SCRAPES,
        "wait": 1e3 * max(waits),
        "took": 1e3 * spent.wall_s / _SCRAPES,
        "page": len(page) / 1e3,
    }


class _Spent(NamedTuple):
    """Time, and processor time of a broker: of its main thread, which is its event loop's, and
    of all threads."""

    wall_s: float
    loop_ms: float
    cpu_ms: float

    def since(self, began: _Spent) -> _Spent:
        return _Spent(*(now - then for now, then in zip(self, began, strict=True)))


def _spent(broker: Broker) -> _Spent:
    text = Path(f"/proc/{broker.pid}/task/{broker.pid}/schedstat").read_text()
    loop_ms = int(text.split()[0]) / 1e6
    return _Spent(time.perf_counter(), loop_ms, 1e3 * cpu_seconds(broker.pid))


@contextlib.contextmanager
def _asking(broker: Broker) -> Iterator[list[float]]:
    """A client that asks one thing after the other; how long each answer took."""
    waits, is_over = [0.0], threading.Event()

    def ask() -> None:
        with RawClient(broker.port, "bench") as client:
            while not is_over.is_set():
                began_s = time.perf_counter()
                client.ask("api_versions", _API_VERSIONS)
                waits.append(time.perf_counter() - began_s)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield waits
    finally:
        is_over.set()
        thread.join()


ROWS: dict[str, Callable[[Options], list[Comparison]]] = {"scrape": scrape}
