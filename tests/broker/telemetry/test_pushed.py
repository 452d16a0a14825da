"""Series of clients: what was pushed, for as long as a client is heard of, within limits."""

from __future__ import annotations

import re
from uuid import UUID

from broker.telemetry.encoded import CUMULATIVE, SUM, counter, metric, point, pushed
from drumlin.broker.loop.measures import Kind, Measure
from drumlin.broker.metrics.clients import begin_to_measure_clients
from drumlin.broker.metrics.exposition import write_metrics
from drumlin.broker.telemetry.otlp import read_metrics
from drumlin.broker.telemetry.pushed import SERIES_MAX, PushedMetrics, by_name

ONE, OTHER = UUID(int=7), UUID(int=8)
Values = dict[str, dict[tuple[str, ...], float]]


class Pushes:
    """Pushes of clients, and what is shown of them."""

    def __init__(self, chosen: str = ".*", clients_max: int = 10) -> None:
        self.pushed, self.now_s = PushedMetrics(re.compile(chosen), clients_max), 0.0

    def push(self, *metrics: bytes, client_id: str = "c", instance: UUID = ONE) -> None:
        read = read_metrics(memoryview(pushed(*metrics)))
        self.pushed.take(instance, client_id, read, self.now_s, 60)

    def values(self) -> Values:
        self.pushed.forget_old(self.now_s)
        return {name: dict(values) for name, _, _, values in by_name(self.pushed.now())}


def test_what_was_added_since_the_last_push_is_summed() -> None:
    seen, at = Pushes(), ("c", str(ONE))
    for _ in range(3):
        seen.push(counter("sent.total", 2), counter("all", 5, CUMULATIVE))
        seen.push(metric("open", [point(-1)], SUM, 1), metric("now", [point(9)]))
    assert seen.values() == {
        "sent": {at: 6.0},
        "all": {at: 5.0},
        "open": {at: -3.0},
        "now": {at: 9.0},
    }


def test_instances_are_kept_apart_until_they_are_gone() -> None:
    seen = Pushes()
    seen.push(metric("m", [point(1)]))
    seen.now_s = 50
    seen.push(metric("m", [point(2)]), instance=OTHER)
    assert seen.values() == {"m": {("c", str(ONE)): 1.0, ("c", str(OTHER)): 2.0}}
    seen.now_s = 61
    assert seen.values() == {"m": {("c", str(OTHER)): 2.0}}
    seen.now_s = 200
    assert seen.values() == {}


def test_clients_that_are_not_chosen_or_too_many_have_no_series() -> None:
    seen = Pushes("[a-z]+", 1)
    for number, client_id in enumerate(("B", "a", "c")):
        seen.push(metric("m", [point(1)]), client_id=client_id, instance=UUID(int=number + 5))
    assert seen.values() == {"m": {("a", str(UUID(int=6))): 1.0}}
    assert (seen.pushed.pushes, seen.pushed.left_out_points) == (3, 2)
    seen.now_s = 100
    seen.push(metric("m", [point(1)]), client_id="c", instance=UUID(int=7))
    assert seen.values() == {"m": {("c", str(UUID(int=7))): 1.0}}, "a place that became free"


def test_a_client_has_a_limited_number_of_series() -> None:
    seen = Pushes()
    seen.push(*(metric(f"m{each}", [point(each)]) for each in range(SERIES_MAX + 7)))
    assert len(seen.values()) == SERIES_MAX
    assert seen.pushed.left_out_points == 7
    seen.push(metric("m5", [point(3)]), metric("new", [point(3)]))
    assert seen.values()["m5"] == {("c", str(ONE)): 3.0}


class Broker:
    """What the measures need of a broker."""

    def __init__(self, seen: Pushes) -> None:
        self.telemetry = self
        self.pushed, self.now_s, self.instances = seen.pushed, seen.now_s, range(2)


def test_the_page_has_no_more_than_one_metric_of_a_name() -> None:
    seen = Pushes("(?s).*")
    seen.push(
        counter("x", 1),
        metric("x.total", [point(2)]),
        metric("x", [point(3, {"node": 1})]),
        metric("y", [point(3, {"a": 1}), point(4, {"b": '"\n\\'})]),
        client_id='"}\n# TYPE drumlin_requests_total gauge\n',
    )
    measures: list[Measure] = list(begin_to_measure_clients(Broker(seen))())  # type: ignore[arg-type]
    kinds = {each.kind for each in measures if each.name == "drumlin_client_x"}
    assert kinds == {Kind.COUNTER, Kind.GAUGE}
    page = write_metrics(measures).decode()
    types = re.findall(r"^# TYPE (\S+)", page, re.MULTILINE)
    assert len(types) == len(set(types))
    assert "drumlin_requests_total" not in types
    assert 'a="",b="\\"\\n\\\\",client_id="\\"}\\n# TYPE' in page
