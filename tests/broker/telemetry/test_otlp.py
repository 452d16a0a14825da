"""What is read of a push; and that nothing a client may send takes more than its share."""

from __future__ import annotations

import contextlib
import random
import tracemalloc

import pytest

from broker.telemetry.encoded import (
    CUMULATIVE,
    DELTA,
    HISTOGRAM,
    SUM,
    counter,
    inner,
    metric,
    number,
    point,
    pushed,
    varint,
)
from drumlin.broker.telemetry.otlp import POINTS_MAX, Point, read_metrics
from drumlin.broker.telemetry.protobuf import Malformed


def read(payload: bytes) -> list[Point]:
    return read_metrics(memoryview(payload)).points


def test_a_label_without_a_value_is_none() -> None:
    """Prometheus takes two series that differ in nothing else for one."""
    labels = [{"zone": ""}, {}]
    payload = pushed(
        *(metric("load", [point(1.0, each)]) for each in labels), resource={"client_rack": ""}
    )
    assert [each.labels for each in read(payload)] == [(), ()]


def test_gauges_and_sums_of_clients() -> None:
    payload = pushed(
        metric("org.apache.kafka.consumer.poll.idle.ratio.avg", [point(0.5)]),
        metric("org.apache.kafka.producer.node.latency", [point(3, {"node.id": 7, "up": True})]),
        counter("org.apache.kafka.producer.connection.creation.total", 2),
        counter("bytes", 2.5, CUMULATIVE),
        metric("open", [point(-4)], SUM, DELTA),
        resource={"group_id": "g", "group_member_id": "m-1", "client_rack": "a"},
    )
    own = (("client_rack", "a"), ("group_id", "g"))
    node = (*own, ("node_id", "7"), ("up", "true"))
    assert read(payload) == [
        Point("consumer_poll_idle_ratio_avg", own, 0.5, is_counter=False, is_delta=False),
        Point("producer_node_latency", node, 3.0, is_counter=False, is_delta=False),
        Point("producer_connection_creation_total", own, 2.0, is_counter=True, is_delta=True),
        Point("bytes", own, 2.5, is_counter=True, is_delta=False),
        Point("open", own, -4.0, is_counter=False, is_delta=True),
    ]


def test_what_describes_a_client_may_come_after_its_metrics() -> None:
    scope = inner(2, inner(2, metric("m", [point(1)])))
    late = inner(1, scope + inner(1, inner(1, inner(1, "group_id") + inner(2, inner(1, "g")))))
    assert read(late)[0].labels == (("group_id", "g"),)


def test_names_are_fit_for_prometheus() -> None:
    odd = {"9 lives": '\n"\\', "client_id": "forged", "__name__": "x", "é": 1, "broker": "2"}
    (one,) = read(pushed(metric("2 é\x00{}.x", [point(1, odd)])))
    assert one.name == "n2_x"
    assert dict(one.labels) == {"n9_lives": '\n"\\', "name": "x"}
    assert read(pushed(metric("\x00é", [point(1)]))) == []


def test_kinds_that_no_client_of_kafka_has_are_counted() -> None:
    found = read_metrics(memoryview(pushed(metric("h", [b"", b""], HISTOGRAM))))
    assert (found.points, found.left_out) == ([], 2)


def test_points_beyond_the_limit_are_counted() -> None:
    many = pushed(*(metric(f"m{each}", [point(each)]) for each in range(POINTS_MAX + 5)))
    found = read_metrics(memoryview(many))
    assert (len(found.points), found.left_out) == (POINTS_MAX, 5)


@pytest.mark.parametrize(
    "payload",
    [
        b"no protobuf",
        b"\x00",
        b"\x80",
        b"\xff" * 11,
        inner(1, b"")[:-1] + b"\x05",
        varint(1 << 3 | 3),
        varint(1 << 3 | 5) + b"\0\0",
        number(1, 5),
        pushed(inner(1, "m") + inner(5, inner(1, number(4, 1)))),
        pushed(inner(1, "m") + inner(5, inner(1, inner(4, b"1234")))),
    ],
)
def test_damaged_payloads_are_refused(payload: bytes) -> None:
    with pytest.raises(Malformed):
        read(payload)


def test_the_fields_of_a_push_are_limited() -> None:
    with pytest.raises(Malformed, match="too many fields"):
        read(number(9, 1) * 50_000)


@pytest.mark.deep
@pytest.mark.parametrize(
    "payload",
    [
        number(9, 1) * 200_000,
        inner(1, b"") * 200_000,
        pushed(metric("m", [point(1) + inner(7, b"") * 200_000])),
        pushed(metric("m", [b""] * 200_000)),
        pushed(metric("m" * 400_000, [point(1, {"l" * 400_000: "v" * 400_000})])),
    ],
    ids=["fields", "resources", "attributes", "points", "texts"],
)
def test_hostile_payloads_take_little(payload: bytes) -> None:
    tracemalloc.start()
    try:
        with contextlib.suppress(Malformed):
            assert len(read(payload)) <= POINTS_MAX
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_any_bytes_are_read_or_refused() -> None:
    chance = random.Random(1)
    whole = pushed(metric("a", [point(1, {"x": 1.5})]), counter("b", 2), resource={"group_id": "g"})
    for _ in range(1000):
        octets = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            octets[chance.randrange(len(octets))] = chance.randrange(256)
        try:
            read(bytes(octets[: chance.randrange(len(octets) + 1)]))
        except Malformed:
            continue
