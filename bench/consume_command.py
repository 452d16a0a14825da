"""`drumlin consume` beside kcat: whole processes that write the values of a topic into a file."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from bench.brokers import Broker, drumlin
from bench.harness import Comparison, Metric, Metrics, Options, compare
from bench.reading import fill

_TOPIC_BYTES = 2 << 30
_SIZES = {"100 B": 100, "1 KB": 1000}
_METRICS = (
    Metric("records", "records/s", target=2.0),
    Metric("cpu", "ns of processor time a record", higher_is_better=False, limit=1.0),
)


def run(options: Options) -> list[Comparison]:
    """Topics of one partition and 2 GiB, on a broker of ours."""
    with drumlin(options) as broker:
        return [
            row
            for name, size in _SIZES.items()
            if not options.rows or name in options.rows
            for row in _compared(broker, name, size, options)
        ]


def _compared(broker: Broker, name: str, size: int, options: Options) -> list[Comparison]:
    with broker.topic() as topic:
        records = fill(broker, topic, size, int(_TOPIC_BYTES * options.scale))
        ours = [sys.executable, "-m", "drumlin", "consume", topic, "-b", broker.address]
        theirs = ["kcat", "-b", broker.address, "-C", "-t", topic, "-o", "beginning", "-e", "-q"]
        sides = {
            "drumlin consume": _process(ours, records, options),
            "kcat": _process(theirs, records, options),
        }
        return compare("consume_command", name, _METRICS, sides, options)


def _process(command: Sequence[str], records: int, options: Options) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        before, started = _cpu_of_children(), time.perf_counter()
        with (options.directory / "consumed").open("wb") as file:
            subprocess.run(command, stdout=file, check=True)
        seconds = time.perf_counter() - started
        cpu = _cpu_of_children() - before
        return {"records": records / seconds, "cpu": 1e9 * cpu / records}

    return measure


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
