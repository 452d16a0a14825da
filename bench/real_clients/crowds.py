"""Crowds of clients, and requests of many partitions: what a broker pays for each."""

from __future__ import annotations

import contextlib
import functools
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bench.brokers import Broker, require_no_error
from bench.crowd import Crowd
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from bench.load import GENERATOR, request_frame
from bench.real_clients.frames import TOPIC_ID, Answers, DistinctLoad, equal_batches, with_topic_id
from drumlin.wire.messages import parse_response
from rig.data.raw import RawClient
from rig.waiting import wait_until

_PRODUCE, _FETCH = 13, 17
_CROWDS = (1, 10, 64, 256, 1000)
_PARTITIONS = 12
_CROWD_CPU_GOAL = 0.7
_VALUE_BYTES = 230
_FRAMES_OF_CLIENT = 5
_WIDTHS = (1, 12, 100)
_FRAMES = 200
_IN_FLIGHT = 5
_OFFSETS = 100  # records in each partition that is fetched from
_SESSION_FRAMES = 500
#: Stands for the id of a session that is not opened yet.
_SESSION_ID = 0x5EED5EED
_TIMEOUT_S = 60.0


def rows() -> Iterator[tuple[str, Callable[[Sequence[Broker], Options], list[Comparison]]]]:
    for clients in _CROWDS:
        yield f"crowd_{clients}", functools.partial(_crowd, clients)
    for width in _WIDTHS:
        yield f"partitions_produce_{width}", functools.partial(_produce, width)
        yield f"partitions_fetch_{width}", functools.partial(_fetch, width)
        yield f"partitions_session_{width}", functools.partial(_session, width)


def _metrics(goal: float | None, cpu_goal: float | None) -> tuple[Metric, ...]:
    return (
        Metric("rate", "requests/s", target=goal),
        Metric("cpu", "broker CPU µs/request", higher_is_better=False, target=cpu_goal),
        GENERATOR,
    )


def _per_request(watch: Stopwatch, count: int) -> Metrics:
    return {
        "rate": count / watch.seconds,
        "cpu": 1e6 * watch.cpu_seconds / count,
        "generator": 100 * watch.own_cpu_seconds / watch.seconds,
    }


def _produce_frame(partitions: Sequence[int], batch: bytes) -> bytes:
    data = [{"index": each, "records": batch} for each in partitions]
    topics = [{"topic_id": TOPIC_ID, "partition_data": data}]
    return request_frame("produce", _PRODUCE, acks=1, timeout=30_000, topic_data=topics)


def _once_all_led(broker: Broker, frame: bytes) -> None:
    def is_led() -> bool:
        with RawClient(broker.port, "bench") as client:
            client.send_bytes(frame)
            _, answer = parse_response("produce", _PRODUCE, client.receive_frame())
        return all(each.error_code == 0 for each in answer.responses[0].partition_responses)

    wait_until(is_led, f"{broker.name} to lead a new topic")


# -- many connections --------------------------------------------------------------------------


def _crowd(clients: int, brokers: Sequence[Broker], options: Options) -> list[Comparison]:
    sides = {each.name: crowd(clients, each, options) for each in brokers}
    scenario = f"{clients:,} connection{'s' * (clients > 1)}, 300 B"
    return compare("real_clients", scenario, _metrics(None, _CROWD_CPU_GOAL), sides, options)


def crowd(clients: int, broker: Broker, options: Options) -> Callable[[], Metrics]:
    """A round in which so many connections produce, each a request of its own at a time."""
    batches = equal_batches(clients * _FRAMES_OF_CLIENT, _VALUE_BYTES)
    frames = [_produce_frame([n % _PARTITIONS], batch) for n, batch in enumerate(batches)]
    everywhere = _produce_frame(range(_PARTITIONS), batches[0])

    def measure() -> Metrics:
        with broker.topic(_PARTITIONS) as topic:
            topic_id = broker.topic_id(topic)
            _once_all_led(broker, with_topic_id([everywhere], topic_id)[0])
            own = with_topic_id(frames, topic_id)
            dial = broker.dial
            connections = Crowd((dial, own[n::clients]) for n in range(clients))
            with contextlib.closing(connections), Stopwatch(broker.pid) as watch:
                count = connections.run(options.seconds)
        return _per_request(watch, count)

    return measure


# -- many partitions a request -----------------------------------------------------------------


def _produce(width: int, brokers: Sequence[Broker], options: Options) -> list[Comparison]:
    batches = equal_batches(_FRAMES, _VALUE_BYTES)
    frames = [_produce_frame(range(width), each) for each in batches]

    def round_of(broker: Broker) -> Callable[[], Metrics]:
        def measure() -> Metrics:
            with broker.topic(width) as topic:
                own = with_topic_id(frames, broker.topic_id(topic))
                _once_all_led(broker, own[0])
                load = DistinctLoad(broker.dial, own, _IN_FLIGHT)
                with contextlib.closing(load), Stopwatch(broker.pid) as watch:
                    count = load.run(options.seconds, 1 << 40).requests
            return _per_request(watch, count)

        return measure

    sides = {each.name: round_of(each) for each in brokers}
    scenario = f"produce, {width} partitions a request"
    return compare("real_clients", scenario, _metrics(1.0, 1.0), sides, options)


@contextlib.contextmanager
def _filled(broker: Broker, width: int) -> Iterator[tuple[Any, int]]:
    """A topic with as many records, of a batch each, in every partition: its id and a batch's
    size."""
    batches = equal_batches(_OFFSETS, _VALUE_BYTES)
    with broker.topic(width) as topic:
        topic_id = broker.topic_id(topic)
        frames = with_topic_id([_produce_frame(range(width), each) for each in batches], topic_id)
        _once_all_led(broker, frames[0])
        with contextlib.closing(DistinctLoad(broker.dial, frames, _IN_FLIGHT)) as load:
            load.run(60, len(frames))
        yield topic_id, len(batches[0])


def _fetch_frame(
    topic_id: Any, width: int, offset: int, batch_bytes: int, session: int, epoch: int
) -> bytes:
    partitions = [
        {
            "partition": each,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": batch_bytes,
        }
        for each in range(width)
    ]
    return request_frame(
        "fetch",
        _FETCH,
        max_wait=500,
        min_bytes=1,
        max_bytes=50 << 20,
        session_id=session,
        session_epoch=epoch,
        topics=[{"topic_id": topic_id, "partitions": partitions}],
    )


def _fetch(width: int, brokers: Sequence[Broker], options: Options) -> list[Comparison]:
    def round_of(broker: Broker, topic_id: Any, batch_bytes: int) -> Callable[[], Metrics]:
        frames = [
            _fetch_frame(topic_id, width, each, batch_bytes, 0, -1) for each in range(_OFFSETS)
        ]

        def measure() -> Metrics:
            load = DistinctLoad(broker.dial, frames, _IN_FLIGHT)
            with contextlib.closing(load), Stopwatch(broker.pid) as watch:
                done = load.run(options.seconds, 1 << 40)
            _require_records(broker, done.bytes, done.requests * width * batch_bytes)
            return _per_request(watch, done.requests)

        return measure

    return _compare_filled(
        f"fetch, {width} partitions a request", width, round_of, brokers, options
    )


def _compare_filled(
    scenario: str,
    width: int,
    round_of: Callable[[Broker, Any, int], Callable[[], Metrics]],
    brokers: Sequence[Broker],
    options: Options,
) -> list[Comparison]:
    with contextlib.ExitStack() as stack:
        sides = {}
        for each in brokers:
            topic_id, batch_bytes = stack.enter_context(_filled(each, width))
            sides[each.name] = round_of(each, topic_id, batch_bytes)
        return compare("real_clients", scenario, _metrics(1.0, 1.0), sides, options)


def _require_records(broker: Broker, received: int, expected: int) -> None:
    if received < expected:
        raise RuntimeError(f"{broker.name} sent {received} bytes: less than the records asked for")


def _session(width: int, brokers: Sequence[Broker], options: Options) -> list[Comparison]:
    def round_of(broker: Broker, topic_id: Any, batch_bytes: int) -> Callable[[], Metrics]:
        session = _Session(broker, topic_id, width, batch_bytes)

        def measure() -> Metrics:
            with Stopwatch(broker.pid) as watch:
                count, received = session.run(options.seconds)
            _require_records(broker, received, count * width * batch_bytes)
            return _per_request(watch, count)

        return measure

    scenario = f"fetch in a session, {width} partitions"
    return _compare_filled(scenario, width, round_of, brokers, options)


class _Session:
    """An incremental session all of whose partitions move with every request, one at a time."""

    def __init__(self, broker: Broker, topic_id: Any, width: int, batch_bytes: int) -> None:
        self._broker = broker
        self._opening = _fetch_frame(topic_id, width, 0, batch_bytes, 0, 0)
        self._frames = [
            bytearray(_fetch_frame(topic_id, width, n % _OFFSETS, batch_bytes, _SESSION_ID, n))
            for n in range(1, _SESSION_FRAMES)
        ]
        self._place = self._frames[0].index(_SESSION_ID.to_bytes(4, "big"))

    def run(self, seconds: float) -> tuple[int, int]:
        """How many requests were answered, and with how many bytes."""
        count = received = 0
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            more, size = self._run_one(deadline)
            count, received = count + more, received + size
        return count, received

    def _run_one(self, deadline: float) -> tuple[int, int]:
        """One session, until its frames or the time are over."""
        with socket.create_connection(("127.0.0.1", self._broker.port), _TIMEOUT_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(self._opening)
            body = _receive_frame(connection)
            _, answer = parse_response("fetch", _FETCH, body)
            require_no_error(answer)
            session_id = answer.session_id.to_bytes(4, "big", signed=True)
            answers, count = Answers(), 1
            for frame in self._frames:
                frame[self._place : self._place + 4] = session_id
                connection.sendall(frame)
                while not answers.receive(connection):
                    pass
                count += 1
                if time.perf_counter() > deadline:
                    break
        return count, answers.bytes + len(body)


def _receive_frame(connection: socket.socket) -> bytes:
    with connection.makefile("rb", buffering=0) as stream:
        size = int.from_bytes(stream.read(4) or b"", "big")
        body = b""
        while len(body) < size:
            more = stream.read(size - len(body))
            if not more:
                raise RuntimeError("the broker closed the connection")
            body += more
    return body
