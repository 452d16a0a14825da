"""Raw produce requests, acks=1: rate, and what a gigabyte costs the broker in processor time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from bench.brokers import Broker, brokers, require_no_error
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from bench.load import GENERATOR, Load, batch_of, first_answer, request_frame
from drumlin.wire.error_codes import ErrorCode
from rig.waiting import wait_until

_PRODUCE = 13
_NOT_LED_YET = (ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_id)
_BYTES_MAX = 2 << 30  # of one round: it must fit into memory


class Scenario(NamedTuple):
    name: str
    batch_bytes: int
    record_bytes: int | None  # None: one record fills the batch
    in_flight: int
    target: float


SCENARIOS = (
    Scenario("300 B, 16 in flight", 300, None, 16, 3.0),
    Scenario("64 KiB, 5 in flight", 64 << 10, 1000, 5, 2.0),
    Scenario("1 MiB, 5 in flight", 1 << 20, 1000, 5, 1.5),
)


def run(options: Options) -> list[Comparison]:
    """Every scenario against both brokers."""
    results = []
    with brokers(options) as (ours, theirs):
        for scenario in SCENARIOS:
            metrics = (
                Metric("rate", "requests/s", target=scenario.target),
                Metric("cpu", "broker CPU s/GB", higher_is_better=False, target=0.5),
                GENERATOR,
            )
            sides = {each.name: round_of(each, scenario, options) for each in (ours, theirs)}
            results += compare("produce", scenario.name, metrics, sides, options)
    return results


def once_led(broker: Broker, frame: bytes) -> bytes:
    """The answer to the first request, when the new topic's leader has learned that it leads."""
    answers: list[bytes] = []

    def is_led() -> bool:
        encoded, answer = first_answer(broker.port, frame)
        partition = answer.responses[0].partition_responses[0]
        if partition.error_code in _NOT_LED_YET:
            return False
        require_no_error(partition)
        answers.append(encoded)
        return True

    wait_until(is_led, f"{broker.name} to lead a new topic")
    return answers[0]


def round_of(broker: Broker, scenario: Scenario, options: Options) -> Callable[[], Metrics]:
    """One round of it: requests for `options.seconds`, all of which are in the log at its end."""
    batch = batch_of(scenario.batch_bytes, scenario.record_bytes)

    def measure() -> Metrics:
        with broker.topic() as topic:
            frame = produce_frame(broker, topic, batch)
            answer_bytes = once_led(broker, frame)
            per_request = broker.end_offset(topic)
            load = Load(broker.dial, [frame], scenario.in_flight, len(answer_bytes))
            with contextlib.closing(load), Stopwatch(broker.pid) as watch:
                count = load.run(options.seconds, _BYTES_MAX // len(batch))
            if broker.end_offset(topic) != (count + 1) * per_request:
                raise RuntimeError(f"{broker.name} did not append all of {count} requests")
        gigabytes = count * len(batch) / 1e9
        return {
            "rate": count / watch.seconds,
            "cpu": watch.cpu_seconds / gigabytes,
            "generator": 100 * watch.own_cpu_seconds / watch.seconds,
        }

    return measure


def per_request(measure: Callable[[], Metrics], batch_bytes: int) -> Callable[[], Metrics]:
    """The same round, with the processor time of a request and not of a gigabyte."""

    def measured() -> Metrics:
        found = measure()
        return {**found, "cpu": found["cpu"] * batch_bytes / 1e3}

    return measured


def produce_frame(broker: Broker, topic: str, batch: bytes) -> bytes:
    """The request that appends `batch` to the only partition of `topic`."""
    return frame_of(broker.topic_id(topic), 0, batch)


def frame_of(topic_id: object, partition: int, batch: bytes) -> bytes:
    """The request that appends `batch` to a partition."""
    return request_frame(
        "produce",
        _PRODUCE,
        acks=1,
        timeout=30_000,
        topic_data=[
            {"topic_id": topic_id, "partition_data": [{"index": partition, "records": batch}]}
        ],
    )
