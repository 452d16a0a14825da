"""How soon the command line is done: processor and wall time of whole processes.

Beside them a Python that does nothing, which no command can be quicker than. `consume` loads Arrow,
the others do not.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

from bench.harness import Comparison, Metric, Metrics, Options, compare
from rig.brokers.drumlin_server import DrumlinServer

_TOPIC = "quick"
_METRICS = (
    Metric("cpu", "ms of processor time", higher_is_better=False),
    Metric("wall", "ms", higher_is_better=False),
)
_COMMANDS = {
    "--help": ("--help",),
    "topics list": ("topics", "list"),
    "groups list": ("groups", "list"),
    "consume -n 1": ("consume", _TOPIC, "-n", "1"),
}


def run(options: Options) -> list[Comparison]:
    """Every command against a broker with one topic of one record."""
    server = DrumlinServer(options.directory)
    server.start()
    try:
        os.environ["DRUMLIN_BOOTSTRAP"] = server.address
        subprocess.run(
            [sys.executable, "-m", "drumlin", "produce", _TOPIC],
            input=b"v\n",
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return [row for name in _COMMANDS for row in _command(name, options)]
    finally:
        server.close()


def _command(name: str, options: Options) -> list[Comparison]:
    sides = {
        "drumlin": _process("-m", "drumlin", *_COMMANDS[name]),
        "empty Python": _process("-c", "pass"),
    }
    return compare("command_line", name, _METRICS, sides, options)


def _process(*arguments: str) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        before, started = _cpu_of_children(), time.perf_counter()
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
        seconds = time.perf_counter() - started
        return {"cpu": 1000 * (_cpu_of_children() - before), "wall": 1000 * seconds}

    return measure


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
