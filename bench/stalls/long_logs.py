"""What a log of 10,000 segments costs beside an empty one, and what caught-up groups read."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.brokers import require_no_error
from bench.harness import Comparison, Metric, Metrics, Options, compare, cpu_seconds
from bench.load import batch_of, request_frame
from bench.produce import once_led, produce_frame
from bench.stalls.logs import fetch_fields
from bench.stalls.neighbour import Place
from bench.stalls.segments import keep_segment, topic_of_segments
from drumlin.wire.messages import parse_response
from rig.data.raw import RawClient

_SEGMENTS = 10_000
_GOAL = 0.9
_GROUPS = 10
_PRODUCE, _FETCH = 13, 12
_BATCH_BYTES = 300
_TAIL_RECORDS_PER_SECOND = 50


def long_log(place: Place, options: Options) -> list[Comparison]:
    """Append to and read the end of a log of 10,000 segments: as fast as those of an empty one."""
    topic = topic_of_segments(place, place.scaled(_SEGMENTS))
    keep_segment(place, topic)
    empty = place.led_topic(1)
    results = []
    for what, measure in (("append", _append), ("tail fetch", _fetch_tail)):
        metrics = (
            Metric("rate", "requests/s", target=_GOAL),
            Metric("cpu", "broker CPU µs each", higher_is_better=False, target=1 / _GOAL),
        )
        sides = {
            f"{place.scaled(_SEGMENTS):,} segments": measure(place, topic, options),
            "empty log": measure(place, empty, options),
        }
        scenario = f"{place.broker.name}, {what}, many segments beside one"
        results += compare("stalls", scenario, metrics, sides, options)
    return results


def _append(place: Place, topic: str, options: Options) -> Callable[[], Metrics]:
    frame = produce_frame(place.broker, topic, batch_of(_BATCH_BYTES))
    once_led(place.broker, frame)

    def measure() -> Metrics:
        with place.connect() as client:
            return _repeated(place, client, lambda: frame, options)

    return measure


def _fetch_tail(place: Place, topic: str, options: Options) -> Callable[[], Metrics]:
    end = place.broker.end_offset(topic)
    frame = request_frame("fetch", _FETCH, **fetch_fields(topic, 0, end - 1))

    def measure() -> Metrics:
        with place.connect() as client:
            fields = fetch_fields(topic, 0, end - 1)
            answer = client.ask("fetch", _FETCH, **fields).responses[0].partitions[0]
            require_no_error(answer)
            if not answer.records:
                raise RuntimeError(f"{place.broker.name} has no last record")
            return _repeated(place, client, lambda: frame, options)

    return measure


def _repeated(
    place: Place, client: RawClient, frame: Callable[[], bytes], options: Options
) -> Metrics:
    """One request after the other."""
    count, cpu_before, started = 0, cpu_seconds(place.broker.pid), time.perf_counter()
    while time.perf_counter() < started + options.seconds:
        client.send_bytes(frame())
        client.receive_frame()
        count += 1
    seconds = time.perf_counter() - started
    cpu = cpu_seconds(place.broker.pid) - cpu_before
    return {"rate": count / seconds, "cpu": 1e6 * cpu / count}


def caught_up(places: Sequence[Place], options: Options) -> list[Comparison]:
    """Ten caught-up consumers of a topic that is written to: nothing is read from the disk."""
    metric = Metric("read", "KiB read from the disk", higher_is_better=False, limit=0.0)
    sides = {each.broker.name: _read_bytes(each, options) for each in places}
    as_it_is = dataclasses.replace(options, warmup=0)  # what is always 0 never gets better
    return compare("stalls", "10 caught-up groups", [metric], sides, as_it_is)


def _read_bytes(place: Place, options: Options) -> Callable[[], Metrics]:
    topic = place.led_topic(1)
    frame = produce_frame(place.broker, topic, batch_of(_BATCH_BYTES))
    once_led(place.broker, frame)

    def measure() -> Metrics:
        with contextlib.ExitStack() as stack:
            writer, *readers = (stack.enter_context(place.connect()) for _ in range(1 + _GROUPS))
            before = _device_bytes(place.broker.pid)
            for _ in range(int(_TAIL_RECORDS_PER_SECOND * options.seconds)):
                end = place.broker.end_offset(topic)
                for each in readers:
                    each.send("fetch", _FETCH, **fetch_fields(topic, 0, end, max_wait=5000))
                writer.send_bytes(frame)
                writer.receive_frame()
                for each in readers:
                    _, answer = parse_response("fetch", _FETCH, each.receive_frame())
                    require_no_error(answer.responses[0].partitions[0])
                time.sleep(1 / _TAIL_RECORDS_PER_SECOND)
            return {"read": (_device_bytes(place.broker.pid) - before) / 1024}

    return measure


def _device_bytes(pid: int) -> int:
    """What the kernel fetched from block devices for a process."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    raise RuntimeError(f"no read_bytes for {pid}")
