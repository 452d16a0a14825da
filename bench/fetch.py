"""Raw fetch requests of one batch each: rate, and what a gigabyte costs the broker.

The log is written once, before the rounds, and read from memory: what is measured is the way
from the page cache to the socket.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from bench.brokers import Broker, brokers, require_no_error
from bench.harness import Comparison, Metric, Metrics, Options, Sides, Stopwatch, compare
from bench.load import GENERATOR, Load, batch_of, first_answer, request_frame
from bench.produce import produce_frame

_FETCH = 17
_LOG_BYTES = 512 << 20
_BYTES_MAX = 64 << 30


class Scenario(NamedTuple):
    name: str
    batch_bytes: int
    in_flight: int
    target: float


SCENARIOS = (
    Scenario("64 KiB, 5 in flight", 64 << 10, 5, 1.3),
    Scenario("1 MiB, 5 in flight", 1 << 20, 5, 1.1),
)


def run(options: Options) -> list[Comparison]:
    """Every scenario against both brokers."""
    results = []
    with brokers(options) as (ours, theirs):
        for scenario in SCENARIOS:
            with sides((ours, theirs), scenario, options) as both:
                results += compare(
                    "fetch",
                    scenario.name,
                    (
                        Metric("rate", "MB/s", target=scenario.target),
                        Metric("cpu", "broker CPU s/GB", higher_is_better=False, target=1.0),
                        GENERATOR,
                    ),
                    both,
                    options,
                )
    return results


@contextlib.contextmanager
def sides(brokers: Sequence[Broker], scenario: Scenario, options: Options) -> Iterator[Sides]:
    """A round for each broker, on a log that it has meanwhile."""
    with contextlib.ExitStack() as stack:
        yield {
            each.name: _round(each, _fill(each, stack, scenario), scenario, options)
            for each in brokers
        }


def _fill(broker: Broker, stack: contextlib.ExitStack, scenario: Scenario) -> list[bytes]:
    """Write a log of equal batches; the requests that fetch them, one batch each."""
    topic = stack.enter_context(broker.topic())
    batch = batch_of(scenario.batch_bytes, 1000)
    frame = produce_frame(broker, topic, batch)
    response_bytes = len(first_answer(broker.port, frame)[0])
    records = broker.end_offset(topic)
    with contextlib.closing(Load(broker.dial, [frame], 5, response_bytes)) as load:
        count = 1 + load.run(seconds=3600, requests_max=_LOG_BYTES // len(batch) - 1)
    topic_id = broker.topic_id(topic)
    return [
        request_frame(
            "fetch",
            _FETCH,
            replica_id=-1,
            max_wait=500,
            min_bytes=1,
            max_bytes=scenario.batch_bytes,
            session_id=0,
            session_epoch=-1,
            topics=[
                {
                    "topic_id": topic_id,
                    "partitions": [
                        {
                            "partition": 0,
                            "current_leader_epoch": -1,
                            "fetch_offset": number * records,
                            "last_fetched_epoch": -1,
                            "log_start_offset": -1,
                            "partition_max_bytes": scenario.batch_bytes,
                        }
                    ],
                }
            ],
        )
        for number in range(count)
    ]


def _round(
    broker: Broker, frames: list[bytes], scenario: Scenario, options: Options
) -> Callable[[], Metrics]:
    answer_bytes, answer = first_answer(broker.port, frames[0])
    partition = answer.responses[0].partitions[0]
    require_no_error(partition)
    if len(partition.records) != scenario.batch_bytes:
        raise RuntimeError(f"{broker.name} answered {len(partition.records)} bytes of records")

    def measure() -> Metrics:
        load = Load(broker.dial, frames, scenario.in_flight, len(answer_bytes))
        with contextlib.closing(load), Stopwatch(broker.pid) as watch:
            count = load.run(options.seconds, _BYTES_MAX // scenario.batch_bytes)
        fetched = count * scenario.batch_bytes
        return {
            "rate": fetched / 1e6 / watch.seconds,
            "cpu": watch.cpu_seconds / (fetched / 1e9),
            "generator": 100 * watch.own_cpu_seconds / watch.seconds,
        }

    return measure
