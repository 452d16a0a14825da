"""`--brokers 2` beside one process: raw produce and fetch requests to four partitions.

The load generator is one process with a thread and a connection for each partition, and has the
same cores: what two brokers gain is limited by what it leaves of them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple

from bench.brokers import Broker, require_no_error
from bench.dial import plain
from bench.harness import Comparison, Metric, Metrics, Options, compare, cpu_seconds
from bench.load import GENERATOR, Load, batch_of, first_answer, request_frame
from bench.produce import frame_of, once_led
from rig.brokers.drumlin_server import DrumlinServer
from rig.brokers.machine_server import MachineServer
from rig.servers.apache_kafka import ApacheKafka
from rig.waiting import wait_until

_BROKERS = 2
_PARTITIONS = 4
_FETCH, _METADATA = 17, 12
_LOG_BYTES = 128 << 20
_BYTES_MAX = 2 << 30  # of one round: it must fit into memory


class Scenario(NamedTuple):
    name: str
    api: Literal["produce", "fetch"]
    batch_bytes: int
    record_bytes: int | None  # None: one record fills the batch
    in_flight: int


SCENARIOS = (
    Scenario("produce 300 B, 16 in flight", "produce", 300, None, 16),
    Scenario("produce 64 KiB, 5 in flight", "produce", 64 << 10, 1000, 5),
    Scenario("fetch 300 B, 16 in flight", "fetch", 300, None, 16),
    Scenario("fetch 64 KiB, 5 in flight", "fetch", 64 << 10, 1000, 5),
)


class Machine:
    """One server, and where its partitions are."""

    def __init__(self, name: str, server: ApacheKafka | DrumlinServer, pids: Sequence[int]) -> None:
        self.name = name
        self.broker = Broker(name, server)
        self._pids = [server.pid, *pids]

    def leaders(self, topic: str) -> list[Broker]:
        """Whom to ask for each partition."""

        def find() -> list[Broker]:
            answer = self.broker.ask("metadata", _METADATA, topics=[{"name": topic}])
            ports = {each.node_id: each.port for each in answer.brokers}
            partitions = sorted(
                answer.topics[0].partitions, key=lambda each: int(each.partition_index)
            )
            if any(each.leader_id not in ports for each in partitions):
                return []
            return [_at(self.broker, ports[each.leader_id]) for each in partitions]

        return wait_until(find, f"{self.name} to lead {topic}")

    def cpu_seconds(self) -> float:
        return sum(map(cpu_seconds, self._pids))


def _at(broker: Broker, port: int) -> Broker:
    found = Broker(broker.name, broker.process)
    found.port = port
    return found


def run(options: Options) -> list[Comparison]:
    """Every scenario on both."""
    results = []
    with _machines(options) as machines:
        for scenario in SCENARIOS:
            with contextlib.ExitStack() as stack:
                sides = {each.name: _round(each, scenario, options, stack) for each in machines}
                metrics = (
                    Metric("rate", "requests/s"),
                    Metric("bytes", "MB/s"),
                    Metric("cpu", "broker CPU s/GB", higher_is_better=False),
                    GENERATOR,
                )
                results += compare("cores", scenario.name, metrics, sides, options)
    return results


@contextlib.contextmanager
def _machines(options: Options) -> Iterator[tuple[Machine, Machine]]:
    directory = options.directory / "one"
    directory.mkdir()
    with several_brokers(options) as ours, contextlib.closing(DrumlinServer(directory)) as theirs:
        theirs.start()
        yield ours, Machine("one", theirs, [])


@contextlib.contextmanager
def several_brokers(
    options: Options, settings: Mapping[str, str] | None = None
) -> Iterator[Machine]:
    """`drumlin server --brokers 2`."""
    directory = options.directory / "several"
    directory.mkdir()
    with contextlib.closing(MachineServer(directory, settings)) as server:
        server.start_brokers(_BROKERS)
        pids = [each.pid for each in server.workers().values()]
        yield Machine(f"{_BROKERS} brokers", server, pids)


def _round(
    machine: Machine, scenario: Scenario, options: Options, stack: contextlib.ExitStack
) -> Callable[[], Metrics]:
    batch = batch_of(scenario.batch_bytes, scenario.record_bytes)
    if scenario.api == "fetch":
        topic = stack.enter_context(machine.broker.topic(_PARTITIONS))
        loads = _fetches(machine, topic, batch)
        return lambda: _measure(machine, loads, scenario, options)

    def measure() -> Metrics:
        with machine.broker.topic(_PARTITIONS) as fresh:
            return _measure(machine, _produces(machine, fresh, batch), scenario, options)

    return measure


class _Plan(NamedTuple):
    """The requests to one partition."""

    port: int
    frames: list[bytes]
    response_bytes: int

    def open(self, in_flight: int) -> Load:
        return Load(plain(self.port), self.frames, in_flight, self.response_bytes)


def _measure(
    machine: Machine, plans: Sequence[_Plan], scenario: Scenario, options: Options
) -> Metrics:
    """All partitions at once."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(plans)) as threads:
        loads = [
            stack.enter_context(contextlib.closing(plan.open(scenario.in_flight))) for plan in plans
        ]
        most = _BYTES_MAX // scenario.batch_bytes // len(plans)
        cpu, own_cpu, began = machine.cpu_seconds(), time.process_time(), time.perf_counter()
        runs = [threads.submit(each.run, options.seconds, most) for each in loads]
        count = sum(each.result() for each in runs)
        took = time.perf_counter() - began
        own_cpu = time.process_time() - own_cpu
        cpu = machine.cpu_seconds() - cpu
    moved = count * scenario.batch_bytes
    return {
        "rate": count / took,
        "bytes": moved / 1e6 / took,
        "cpu": cpu / (moved / 1e9),
        "generator": 100 * own_cpu / took,
    }


def _produces(machine: Machine, topic: str, batch: bytes) -> list[_Plan]:
    plans = []
    topic_id = machine.broker.topic_id(topic)
    for partition, leader in enumerate(machine.leaders(topic)):
        frame = frame_of(topic_id, partition, batch)
        plans.append(_Plan(leader.port, [frame], len(once_led(leader, frame))))
    return plans


def _fetches(machine: Machine, topic: str, batch: bytes) -> list[_Plan]:
    """Write a log into each partition; the requests that fetch it, one batch each."""
    plans = []
    topic_id = machine.broker.topic_id(topic)
    most = max(_LOG_BYTES // _PARTITIONS // len(batch), 1)
    count = min(most, 2000)
    for partition, plan in enumerate(_produces(machine, topic, batch)):
        leader = _at(machine.broker, plan.port)
        records = leader.end_offset(topic, partition)
        with contextlib.closing(plan.open(5)) as load:
            load.run(seconds=3600, requests_max=count)
        frames = [
            _fetch(topic_id, partition, number * records, len(batch)) for number in range(count)
        ]
        encoded, answer = first_answer(plan.port, frames[0])
        found = answer.responses[0].partitions[0]
        require_no_error(found)
        if len(found.records) != len(batch):
            raise RuntimeError(f"{machine.name} answered {len(found.records)} bytes of records")
        plans.append(_Plan(plan.port, frames, len(encoded)))
    return plans


def _fetch(topic_id: object, partition: int, offset: int, max_bytes: int) -> bytes:
    wanted = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": max_bytes,
    }
    return request_frame(
        "fetch",
        _FETCH,
        replica_id=-1,
        max_wait=500,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic_id": topic_id, "partitions": [wanted]}],
    )
