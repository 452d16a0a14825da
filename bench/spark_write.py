"""`format("drumlin")` as a sink, exactly once, beside Spark's own Kafka sink, at least once.

Two warm sessions on `local[2]` write the same cached frame to new topics of the same broker, in
turns: Spark's sink with its defaults, and with large batches that wait to be filled. Ceiling: a
sink that drops its rows beside Spark's, see `dropping`; none in Python can be faster. Then what one
write costs however little it writes; what a micro-batch of 1,000 rows takes, by the number of tasks
that write it; and the most memory that a writing task takes, whatever it writes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bench.brokers import Broker, drumlin, kafka
from bench.harness import Comparison, Metric, Metrics, Options, compare, cpu_seconds
from bench.reading import Program
from bench.writers import Shape
from rig.jvm.spark_connector import connector_jars

_PARTITIONS = 8
_DEFAULTS, _TUNED = "Spark's sink", "Spark's sink, tuned"
_TUNING = {"kafka.batch.size": str(1 << 20), "kafka.linger.ms": "50"}
_RIVALS: Sequence[tuple[str, Mapping[str, str]]] = ((_DEFAULTS, {}), (_TUNED, _TUNING))
_TASKS = (2, 8, 32, 128)
_BATCHES = 40
_FEW_ROWS = 1000
_MEMORY_LIMIT = 256 << 20


class Scenario(NamedTuple):
    """One frame and one way of ours to write it; `target` counts beside both of theirs."""

    name: str
    target: float | None
    record_bytes: int = 100
    codec: str = "none"
    delivery: str = "exactly-once"
    frame_bytes: int = 256 << 20

    @property
    def ours(self) -> dict[str, str]:
        return {"delivery": self.delivery, "kafka.compression.type": self.codec}

    @property
    def theirs(self) -> dict[str, str]:
        return {"kafka.compression.type": self.codec}


SCENARIOS = {
    "100b": Scenario("100 B", 1.5),
    "1kb": Scenario("1 KB", 2.0, 1000, frame_bytes=512 << 20),
    "100b_lz4": Scenario("100 B, lz4", 1.5, codec="lz4"),
    "1kb_lz4": Scenario("1 KB, lz4", 2.0, 1000, "lz4", frame_bytes=512 << 20),
    "100b_at_least_once": Scenario("100 B, at least once", None, delivery="at-least-once"),
    "1kb_at_least_once": Scenario("1 KB, at least once", None, 1000, "none", "at-least-once"),
}


def run(options: Options) -> list[Comparison]:
    """All rows, or those that are chosen: to Apache Kafka, and two to Drumlin."""
    os.environ["SPARK_KAFKA_JARS"] = connector_jars()
    results: list[Comparison] = []
    with kafka(options) as broker:
        for row, scenario in SCENARIOS.items():
            if _is_chosen(row, options):
                results += _frames(broker, scenario, options)
        for row in ("100b", "1kb"):
            if _is_chosen(f"ceiling_{row}", options):
                results += _ceiling(broker, SCENARIOS[row], options)
        if _is_chosen("fixed", options):
            results += _fixed(broker, options)
        for tasks in _TASKS:
            if _is_chosen(f"batches_{tasks}", options):
                results += _micro_batches(broker, tasks, options)
            if _is_chosen(f"ceiling_batches_{tasks}", options):
                results += _micro_batch_ceiling(broker, tasks, options)
        if _is_chosen("memory", options):
            results += _memory(broker, options)
    if any(_is_chosen(f"drumlin_{row}", options) for row in ("100b", "1kb", "batches_8")):
        results += _to_drumlin(options)
    return results


def _to_drumlin(options: Options) -> list[Comparison]:
    results: list[Comparison] = []
    with drumlin(options) as broker:
        for row in ("100b", "1kb"):
            if _is_chosen(f"drumlin_{row}", options):
                name = f"{SCENARIOS[row].name}, to Drumlin"
                results += _frames(broker, SCENARIOS[row]._replace(name=name), options)
        if _is_chosen("drumlin_batches_8", options):
            results += _micro_batches(broker, 8, options, ", to Drumlin")
    return results


def _is_chosen(row: str, options: Options) -> bool:
    return not options.rows or row in options.rows


def _metrics(target: float | None) -> list[Metric]:
    """The rate, and what it costs: processor time of each part, for each record."""
    parts = ("JVM", "Python", "broker")
    costs = [Metric(each, f"ns of {each}", higher_is_better=False) for each in parts]
    return [Metric("rate", "records/s", target=target), *costs]


def _name(scenario: Scenario, rival: str) -> str:
    return scenario.name if rival == _DEFAULTS else f"{scenario.name}; theirs is tuned"


def _shape(scenario: Scenario, given: Mapping[str, str], options: Options) -> Shape:
    rows = max(1000, round(scenario.frame_bytes * options.scale / scenario.record_bytes))
    return Shape(rows, scenario.record_bytes, _PARTITIONS, given)


def _frames(broker: Broker, scenario: Scenario, options: Options) -> list[Comparison]:
    results = []
    for rival, tuning in _RIVALS:
        with contextlib.ExitStack() as stack:
            ours = _shape(scenario, scenario.ours, options)
            theirs = ours._replace(options={**scenario.theirs, **tuning})
            sides = {
                "Drumlin's sink": _round(stack, "frame-drumlin", broker, ours),
                rival: _round(stack, "frame-kafka", broker, theirs),
            }
            metrics = _metrics(scenario.target)
            results += compare("Spark write", _name(scenario, rival), metrics, sides, options)
    return results


def _ceiling(broker: Broker, scenario: Scenario, options: Options) -> list[Comparison]:
    """The ratios that a sink in Python would have which takes no time itself."""
    results = []
    for rival, tuning in _RIVALS:
        with contextlib.ExitStack() as stack:
            shape = _shape(scenario, tuning, options)
            sides = {
                "rows that are dropped": _round(stack, "frame-dropping", broker, shape),
                rival: _round(stack, "frame-kafka", broker, shape),
            }
            name = _name(scenario, rival)
            results += compare("Spark write, ceiling", name, _metrics(None), sides, options)
    return results


def _fixed(broker: Broker, options: Options) -> list[Comparison]:
    """What a write costs besides its rows, of which there are next to none."""
    metric = Metric("ms", "ms a write", higher_is_better=False)
    with contextlib.ExitStack() as stack:
        shape = Shape(_FEW_ROWS, 100, _PARTITIONS, {})
        sides = {
            "Drumlin's sink": _round(stack, "frame-drumlin", broker, shape),
            _DEFAULTS: _round(stack, "frame-kafka", broker, shape),
        }
        name = f"{_FEW_ROWS:,} rows, {_PARTITIONS} tasks"
        return compare("Spark write, fixed cost", name, [metric, *_costs()], sides, options)


def _costs() -> list[Metric]:
    """Processor time of each part, for a write or a batch."""
    parts = ("JVM", "Python", "broker")
    return [Metric(f"{each} ms", f"ms of {each}", higher_is_better=False) for each in parts]


def _micro_batches(
    broker: Broker, tasks: int, options: Options, where: str = ""
) -> list[Comparison]:
    """Milliseconds of a micro-batch of 1,000 rows."""
    ours = ("Drumlin's sink", "batches-drumlin")
    name = f"1,000 rows, {tasks} tasks{where}"
    return _batches_beside(broker, tasks, options, "Spark micro-batches", name, ours, 2.0)


def _micro_batch_ceiling(broker: Broker, tasks: int, options: Options) -> list[Comparison]:
    """The same with a sink in Python that writes nothing."""
    ours, name = ("rows that are dropped", "batches-dropping"), f"1,000 rows, {tasks} tasks"
    return _batches_beside(broker, tasks, options, "Spark micro-batches, ceiling", name, ours, None)


def _batches_beside(
    broker: Broker,
    tasks: int,
    options: Options,
    bench: str,
    name: str,
    ours: tuple[str, str],
    target: float | None,
) -> list[Comparison]:
    metric = Metric("ms", "ms a batch", higher_is_better=False, target=target)
    batches = max(5, round(_BATCHES * options.scale))
    with contextlib.ExitStack() as stack:
        shape = Shape(0, 0, tasks, {}, batches)
        sides = {
            ours[0]: _round(stack, ours[1], broker, shape),
            _DEFAULTS: _round(stack, "batches-kafka", broker, shape),
        }
        return compare(bench, name, [metric, *_costs()], sides, options)


def _memory(broker: Broker, options: Options) -> list[Comparison]:
    """The peak of a writing task's process, with a small partition and one of a gigabyte."""
    metric = Metric("MiB", "MiB of a writing task", False, limit=_MEMORY_LIMIT >> 20)
    results = []
    for record_bytes in (100, 1000):
        with contextlib.ExitStack() as stack:
            rows = round((1 << 30) * options.scale / record_bytes)
            large = Shape(rows, record_bytes, 1, SCENARIOS["100b"].ours)
            small = large._replace(rows=max(1000, rows // 100))
            sides = {
                "a large partition": _round(stack, "frame-drumlin", broker, large),
                "a small one": _round(stack, "frame-drumlin", broker, small),
            }
            name = f"{record_bytes} B, one task"
            results += compare("Spark write, memory", name, [metric], sides, options)
    return results


def _round(
    stack: contextlib.ExitStack, kind: str, broker: Broker, shape: Shape
) -> Callable[[], Metrics]:
    """Writes to a topic of its own, so that no log grows with the rounds."""
    program = Program("bench.writers", kind, broker.address, shape.as_text())
    stack.callback(program.close)
    rows = shape.rows or 1

    def measure() -> Mapping[str, float]:
        with broker.topic(_PARTITIONS) as topic:
            before = cpu_seconds(broker.pid)
            seconds, java, python, memory = map(float, program.ask(topic).split())
            spent = cpu_seconds(broker.pid) - before
            writes = shape.batches or 1
            return {
                "rate": rows / seconds,
                "JVM": java / rows * 1e9,
                "Python": python / rows * 1e9,
                "broker": spent / rows * 1e9,
                "ms": seconds * 1e3,
                "JVM ms": java / writes * 1e3,
                "Python ms": python / writes * 1e3,
                "broker ms": spent / writes * 1e3,
                "MiB": memory / (1 << 20),
            }

    return measure
