"""Measures of traffic: requests and connections by listener, bytes and records by topic, throttled
time by client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, Protocol

from drumlin.broker.loop.measures import INFINITE, SUM, Kind, Measure, Sample, Source
from drumlin.broker.net.connection import Connection
from drumlin.broker.parts.parts import BrokerData
from drumlin.broker.quotas.client_quotas import ClientQuotas
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.broker.traffic.request_counts import STEPS_S, ApiCounts
from drumlin.broker.traffic.topic_counts import OTHERS, TopicCounts, TrafficByTopic
from drumlin.wire.error_code import ErrorCode

_PREFIX: Final = "drumlin_"
_API: Final = ("listener", "api")
_BOUNDS: Final = (*(f"{step:g}" for step in STEPS_S), INFINITE)

#: Counter of a listener -> count, documentation.
_OF_LISTENERS: Final[dict[str, tuple[Callable[[ListenerCounts], float], str]]] = {
    "connections_opened": (lambda each: each.opened, "Connections that were accepted."),
    "connections_closed": (lambda each: each.closed, "Connections that have ended."),
    "connections_refused": (
        lambda each: each.refused,
        "Connections that were closed at once, as a limit or a quota was reached.",
    ),
    "handshake_failures": (
        lambda each: each.failed_handshakes,
        "TLS handshakes that failed, and certificates without a name here.",
    ),
    "logins": (lambda each: each.logins, "SASL logins that succeeded."),
    "login_failures": (lambda each: each.failed_logins, "SASL logins that failed."),
}
#: Counter of an API -> count, documentation.
_OF_APIS: Final[dict[str, tuple[Callable[[ApiCounts], float], str]]] = {
    "request_queue_seconds": (
        lambda each: each.queue_s,
        "Time that requests waited to be started.",
    ),
    "request_local_seconds": (
        lambda each: each.local_s,
        "Time that the event loop worked on requests.",
    ),
    "request_remote_seconds": (
        lambda each: each.remote_s,
        "Time that started requests waited: for replicas, for new records, for the disk.",
    ),
    "request_send_seconds": (
        lambda each: each.send_s,
        "Time from answers being ready until all of them had been given to the network.",
    ),
    "request_throttled_seconds": (
        lambda each: each.throttled_s,
        "Time for which clients were throttled by quotas after requests.",
    ),
}
#: Counter of a topic -> count, documentation.
_OF_TOPICS: Final[dict[str, tuple[Callable[[TopicCounts], float], str]]] = {
    "topic_received_bytes": (
        lambda each: each.in_bytes,
        "Bytes of batches that clients have appended.",
    ),
    "topic_received_records": (lambda each: each.in_records, "Records that clients have appended."),
    "topic_sent_bytes": (
        lambda each: each.out_bytes,
        "Bytes of records that were sent to consumers.",
    ),
    "topic_produce_failures": (
        lambda each: each.failed_produces,
        "Batches of clients that were refused.",
    ),
    "topic_fetch_failures": (
        lambda each: each.failed_fetches,
        "Partitions in fetches of clients and followers that were answered with an error.",
    ),
}


class Listening(Protocol):
    """The part of the server that counts."""

    def traffic(self) -> Mapping[str, ListenerCounts]: ...
    def open_connections(self) -> Sequence[Connection]: ...


class Serving(BrokerData, Protocol):
    """The parts of a broker that have traffic."""

    client_quotas: ClientQuotas

    @property
    def server(self) -> Listening: ...


def begin_to_measure_traffic(broker: Serving) -> Source:
    """Begin on the loop; the source that is returned is for a thread."""
    topics, listeners = broker.traffic, broker.server.traffic()
    topics.note(broker.metadata.image.topics)
    # Here, as a connection that closes meanwhile would be counted twice, or not at all.
    received = {name: counts.received_bytes for name, counts in listeners.items()}
    sent = {name: counts.sent_bytes for name, counts in listeners.items()}
    for connection in broker.server.open_connections():
        received[connection.listener] += connection.received_bytes
        sent[connection.listener] += connection.sent_bytes

    throttled = broker.client_quotas.throttled.seconds()

    def measure() -> Iterator[Measure]:
        yield from _of_listeners(listeners)
        yield _counter(
            "network_received_bytes", "Bytes received from clients.", ("listener",), received
        )
        yield _counter("network_sent_bytes", "Bytes sent to clients.", ("listener",), sent)
        yield from _of_apis(listeners)
        yield from _of_topics(topics)
        yield _of_labels(
            "throttled_seconds",
            "Time for which quotas have throttled a client.",
            ("user", "client_id"),
            throttled.items(),
        )

    return measure


def _of_listeners(listeners: Mapping[str, ListenerCounts]) -> Iterator[Measure]:
    yield Measure(
        f"{_PREFIX}connections",
        Kind.GAUGE,
        "Connections that are open.",
        ("listener",),
        tuple(
            Sample((name,), float(counts.opened - counts.closed))
            for name, counts in listeners.items()
        ),
    )
    for measure, (count, documentation) in _OF_LISTENERS.items():
        values = {name: count(counts) for name, counts in listeners.items()}
        yield _counter(measure, documentation, ("listener",), values)


def _of_apis(listeners: Mapping[str, ListenerCounts]) -> Iterator[Measure]:
    apis = [
        ((listener, _kafka_name(api)), counts)
        for listener, of_listener in listeners.items()
        for api, counts in of_listener.by_name().items()
    ]
    yield _of_labels(
        "requests", "Requests that were started.", _API, [(at, each.requests) for at, each in apis]
    )
    yield Measure(
        f"{_PREFIX}request_seconds",
        Kind.HISTOGRAM,
        "Time of answered requests, from their arrival until the answer was sent.",
        _API,
        tuple(sample for at, counts in apis for sample in _buckets(at, counts)),
    )
    for measure, (count, documentation) in _OF_APIS.items():
        values = [(at, count(each)) for at, each in apis]
        yield _of_labels(measure, documentation, _API, values)
    yield _of_labels(
        "request_errors",
        "Errors in answers; an answer may have one for each partition.",
        (*_API, "error"),
        [
            ((*at, ErrorCode(code).name.upper()), count)
            for at, counts in apis
            for code, count in list(counts.errors.items())
            if count
        ],
    )


def _buckets(at: tuple[str, str], counts: ApiCounts) -> Iterator[Sample]:
    for bound, count in zip(_BOUNDS, accumulate(counts.steps), strict=True):
        yield Sample((*at, bound), float(count))
    yield Sample((*at, SUM), counts.total_s)


def _of_topics(traffic: TrafficByTopic) -> Iterator[Measure]:
    rest, shown = TopicCounts(), dict[str, TopicCounts]()
    rest.add(traffic.others)
    for topic, counts in list(traffic.items()):
        if counts.has_series:
            shown[topic] = counts
        else:
            rest.add(counts)
    shown[OTHERS] = rest
    for measure, (count, documentation) in _OF_TOPICS.items():
        values = {topic: count(counts) for topic, counts in shown.items()}
        yield _counter(measure, documentation, ("topic",), values)
    yield _of_labels(
        "replication_sent_bytes",
        "Bytes of records that were sent to followers.",
        (),
        [((), traffic.replicated_bytes)],
    )


def _kafka_name(api: str) -> str:
    return "".join(word.capitalize() for word in api.split("_"))


def _counter(
    name: str, documentation: str, labels: tuple[str, ...], values: Mapping[str, float]
) -> Measure:
    return _of_labels(name, documentation, labels, [((at,), each) for at, each in values.items()])


def _of_labels(
    name: str,
    documentation: str,
    labels: tuple[str, ...],
    values: Iterable[tuple[tuple[str, ...], float]],
) -> Measure:
    samples = tuple(Sample(at, float(value)) for at, value in values)
    return Measure(_PREFIX + name, Kind.COUNTER, documentation, labels, samples)
