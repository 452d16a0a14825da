"""What `drumlin console` asks of a broker while nobody looks at it: nothing."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from typing import Final

from bench.brokers import drumlin
from bench.harness import Comparison, Metric, Options, cpu_seconds
from console.console_process import ConsoleProcess
from rig.brokers.prometheus import scrape
from rig.ports import free_ports

_METRICS: Final = (
    Metric("requests", "requests of an idle console", False, limit=0.0),
    Metric("connections", "connections that it opens", False, limit=0.0),
    Metric("cpu", "ms of its processor time a second", False),
)


def console(options: Options) -> list[Comparison]:
    """A broker, and a console that no browser has open."""
    (port,) = free_ports(1)
    rounds: dict[str, list[float]] = {each.name: [] for each in _METRICS}
    settings = {"drumlin.metrics.listener": f"127.0.0.1:{port}"}
    with drumlin(options, settings) as broker:
        arguments = ("--bootstrap", broker.address, "--http", f"127.0.0.1:{port}")
        process = ConsoleProcess(options.directory, *arguments)
        with contextlib.closing(process):
            process.start()
            for _ in range(options.rounds):
                before, cpu_s = scrape(port), cpu_seconds(process.pid)
                time.sleep(options.seconds)
                after = scrape(port)
                for name in ("requests", "connections"):
                    rounds[name].append(_counted(after, name) - _counted(before, name))
                used_s = cpu_seconds(process.pid) - cpu_s
                rounds["cpu"].append(1e3 * used_s / options.seconds)
    told = ", ".join(f"{rounds[each.name]} {each.unit}" for each in _METRICS)
    print(f"seeing, console: {told}", file=sys.stderr, flush=True)
    scenario, nothing = "console, nobody looks", [0.0] * options.rounds
    return [
        Comparison("seeing", scenario, each, "Drumlin", "-", rounds[each.name], nothing)
        for each in _METRICS
    ]


def _counted(measures: dict[str, float], what: str) -> float:
    """Requests that were started, or connections that were opened, at any listener."""
    name = {"requests": "drumlin_requests_total", "connections": "drumlin_connections_opened_total"}
    return sum(value for each, value in measures.items() if each.startswith(name[what] + "{"))


ROWS: dict[str, Callable[[Options], list[Comparison]]] = {"console": console}
