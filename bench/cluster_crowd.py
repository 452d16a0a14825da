"""64 connections with one small request each: `--brokers 2` beside a single Apache Kafka.

Each client asks the leader of its partition, as real ones do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

from bench.brokers import kafka
from bench.cores import Machine, several_brokers
from bench.crowd import Crowd
from bench.dial import Dial
from bench.harness import Comparison, Metric, Metrics, Options, compare
from bench.load import GENERATOR
from bench.produce import frame_of, once_led
from bench.real_clients.frames import equal_batches

_CLIENTS = 64
_PARTITIONS = 12
_VALUE_BYTES = 230
_FRAMES_OF_CLIENT = 5


def run(options: Options) -> list[Comparison]:
    """Ours has a process for each of two cores, theirs threads."""
    metrics = (
        Metric("rate", "requests/s", target=1.3),
        Metric("cpu", "CPU µs/request", higher_is_better=False),
        GENERATOR,
    )
    with _sides(options) as (ours, theirs):
        sides = {each.name: _round(each, options) for each in (ours, theirs)}
        return compare("cluster", f"{_CLIENTS} connections, 300 B", metrics, sides, options)


@contextlib.contextmanager
def _sides(options: Options) -> Iterator[tuple[Machine, Machine]]:
    directory = options.directory / "crowd"
    directory.mkdir()
    own = dataclasses.replace(options, directory=directory)
    with several_brokers(own) as ours, kafka(own) as theirs:
        yield ours, Machine(theirs.name, theirs.process, [])


def _round(machine: Machine, options: Options) -> Callable[[], Metrics]:
    batches = equal_batches(_CLIENTS * _FRAMES_OF_CLIENT, _VALUE_BYTES)

    def measure() -> Metrics:
        with machine.broker.topic(_PARTITIONS) as topic:
            clients = list(_clients(machine, topic, batches))
            with contextlib.closing(Crowd(clients)) as crowd:
                cpu, own_cpu, began = (
                    machine.cpu_seconds(),
                    time.process_time(),
                    time.perf_counter(),
                )
                count = crowd.run(options.seconds)
                took = time.perf_counter() - began
                own_cpu = time.process_time() - own_cpu
                cpu = machine.cpu_seconds() - cpu
        return {
            "rate": count / took,
            "cpu": 1e6 * cpu / count,
            "generator": 100 * own_cpu / took,
        }

    return measure


def _clients(
    machine: Machine, topic: str, batches: Sequence[bytes]
) -> Iterator[tuple[Dial, list[bytes]]]:
    """Whom each client asks, and what."""
    topic_id, leaders = machine.broker.topic_id(topic), machine.leaders(topic)
    for partition, leader in enumerate(leaders):
        once_led(leader, frame_of(topic_id, partition, batches[0]))
    for number in range(_CLIENTS):
        partition = number % _PARTITIONS
        own = [frame_of(topic_id, partition, each) for each in batches[number::_CLIENTS]]
        yield leaders[partition].dial, own
