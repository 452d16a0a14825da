"""One connection whose requests are all different: Produce of three sizes, Fetch by version."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from bench.brokers import Broker, require_no_error
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from bench.load import GENERATOR, first_answer, request_frame
from bench.produce import once_led
from bench.real_clients.frames import TOPIC_ID, Batch, DistinctLoad, distinct_batches, with_topic_id

_PRODUCE = 13
_ROUND_BYTES_MAX = 2 << 30  # it must fit into memory
_FILLED_BYTES = 256 << 20


class Size(NamedTuple):
    """What is sent: batches of about this many bytes."""

    name: str
    batch_bytes: int
    record_bytes: int | None  # None: one record fills the batch
    spread: float
    frames: int
    in_flight: int

    def batches(self) -> list[Batch]:
        return _batches(self)


@functools.lru_cache(maxsize=1)
def _batches(size: Size) -> list[Batch]:
    return distinct_batches(size.frames, size.batch_bytes, size.record_bytes, size.spread)


_300 = Size("300 B", 230, None, 0.4, 2000, 16)
_64K = Size("64 KiB", 64 << 10, 1000, 0.1, 2000, 5)
_1M = Size("1 MiB", 1_000_000, 1000, 0.04, 200, 5)
_PRODUCED = {"300": (_300, 3.0), "64k": (_64K, 1.7), "1m": (_1M, 1.4)}
_FETCHED = {
    "64k_v4": (_64K, 4, 1.1),
    "64k_v11": (_64K, 11, 1.1),
    "64k_v12": (_64K, 12, 1.1),
    "64k_v17": (_64K, 17, 1.1),
    "1m_v12": (_1M, 12, 1.0),
    "1m_v17": (_1M, 17, 1.0),
}


def rows() -> Iterator[tuple[str, Callable[[Sequence[Broker], Options], list[Comparison]]]]:
    for name, (size, goal) in _PRODUCED.items():
        yield f"produce_{name}", functools.partial(_produce, size, goal)
    for name, (size, version, goal) in _FETCHED.items():
        yield f"fetch_{name}", functools.partial(_fetch, size, version, goal)


# -- Produce -----------------------------------------------------------------------------------


def _produce(
    size: Size, goal: float, brokers: Sequence[Broker], options: Options
) -> list[Comparison]:
    metrics = (
        Metric("rate", "requests/s", target=goal),
        Metric("cpu", "broker CPU µs/request", higher_is_better=False),
        GENERATOR,
    )
    frames = _produce_frames(size)
    sides = {each.name: _produce_round(each, size, frames, options) for each in brokers}
    return compare("real_clients", f"produce {size.name}, all different", metrics, sides, options)


def _produce_frames(size: Size) -> list[bytes]:
    return [
        request_frame(
            "produce",
            _PRODUCE,
            acks=1,
            timeout=30_000,
            topic_data=[
                {"topic_id": TOPIC_ID, "partition_data": [{"index": 0, "records": each.data}]}
            ],
        )
        for each in size.batches()
    ]


def _produce_round(
    broker: Broker, size: Size, frames: list[bytes], options: Options
) -> Callable[[], Metrics]:
    records = [each.records for each in size.batches()]

    def measure() -> Metrics:
        with broker.topic() as topic:
            own = with_topic_id(frames, broker.topic_id(topic))
            once_led(broker, own[0])
            before = broker.end_offset(topic)
            load = DistinctLoad(broker.dial, own, size.in_flight)
            with contextlib.closing(load), Stopwatch(broker.pid) as watch:
                done = load.run(options.seconds, _ROUND_BYTES_MAX // size.batch_bytes).requests
            cycles, rest = divmod(done, len(records))
            expected = before + cycles * sum(records) + sum(records[:rest])
            if broker.end_offset(topic) != expected:
                raise RuntimeError(f"{broker.name} did not append all of {done} requests")
        return {
            "rate": done / watch.seconds,
            "cpu": 1e6 * watch.cpu_seconds / done,
            "generator": 100 * watch.own_cpu_seconds / watch.seconds,
        }

    return measure


# -- Fetch -------------------------------------------------------------------------------------


def _fetch(
    size: Size, version: int, goal: float, brokers: Sequence[Broker], options: Options
) -> list[Comparison]:
    metrics = (
        Metric("rate", "MB/s", target=goal),
        Metric("cpu", "broker CPU µs/request", higher_is_better=False),
        GENERATOR,
    )
    with contextlib.ExitStack() as stack:
        sides = {}
        for each in brokers:
            topic = stack.enter_context(each.topic())
            sides[each.name] = _fetch_round(each, topic, size, version, options)
        scenario = f"fetch {size.name}, version {version}"
        return compare("real_clients", scenario, metrics, sides, options)


def _fetch_round(
    broker: Broker, topic: str, size: Size, version: int, options: Options
) -> Callable[[], Metrics]:
    batches = size.batches()[: _FILLED_BYTES // size.batch_bytes]
    frames = with_topic_id(_produce_frames(size)[: len(batches)], broker.topic_id(topic))
    once_led(broker, frames[0])
    start = broker.end_offset(topic)
    with contextlib.closing(DistinctLoad(broker.dial, frames, size.in_flight)) as filling:
        filling.run(600, len(frames))
    topic_id, asked = broker.topic_id(topic), []
    for batch in batches:
        asked.append(_fetch_frame(topic, topic_id, version, start, len(batch.data)))
        start += batch.records
    encoded, answer = first_answer(broker.port, asked[0])
    partition = answer.responses[0].partitions[0]
    require_no_error(partition)
    _require_like(broker, bytes(partition.records), batches[0].data)
    overhead = len(encoded) - len(batches[0].data)

    def measure() -> Metrics:
        load = DistinctLoad(broker.dial, asked, size.in_flight)
        with contextlib.closing(load), Stopwatch(broker.pid) as watch:
            done = load.run(options.seconds, 1 << 40)
        cycles, rest = divmod(done.requests, len(batches))
        sizes = [len(each.data) for each in batches]
        expected = cycles * sum(sizes) + sum(sizes[:rest]) + done.requests * overhead
        if done.bytes != expected:
            raise RuntimeError(f"{broker.name} sent {done.bytes} bytes instead of {expected}")
        return {
            "rate": done.bytes / 1e6 / watch.seconds,
            "cpu": 1e6 * watch.cpu_seconds / done.requests,
            "generator": 100 * watch.own_cpu_seconds / watch.seconds,
        }

    return measure


def _require_like(broker: Broker, records: bytes, batch: bytes) -> None:
    """The same batch, but for what a broker fills in: base offset and leader epoch."""
    if (len(records), records[16:]) != (len(batch), batch[16:]):
        raise RuntimeError(f"{broker.name} answered something else")


def _fetch_frame(topic: str, topic_id: Any, version: int, offset: int, max_bytes: int) -> bytes:
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": max_bytes,
    }
    return request_frame(
        "fetch",
        version,
        replica_id=-1,
        max_wait=500,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": topic, "topic_id": topic_id, "partitions": [partition]}],
    )
