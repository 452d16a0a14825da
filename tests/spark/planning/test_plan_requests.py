"""How often a plan asks the brokers: nothing twice that an answer has told already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from drumlin.peer.connection import BrokerConnection
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.planning.cluster import Cluster
from drumlin.spark.reading.batch import BatchReader
from drumlin.spark.state.moment import limit_of
from drumlin.spark.state.options import StateOptions
from drumlin.spark.state.plan import plan_state
from spark.topics import Topic

NewTopic = Callable[[int], Topic]


class Requests:
    """Counts the requests of clients in this process, by API."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def see(self, api: str) -> None:
        self._seen[api] += 1

    def of(self, run: Callable[[], object]) -> dict[str, int]:
        self._seen.clear()
        run()
        return dict(self._seen)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    counted = Requests()
    write = BrokerConnection._write

    def counting(self: BrokerConnection, api: str, *args: Any, **keywords: Any) -> Any:
        counted.see(api)
        return write(self, api, *args, **keywords)

    monkeypatch.setattr(BrokerConnection, "_write", counting)
    return counted


def options_of(topic: Topic, **more: str) -> SourceOptions:
    return SourceOptions.parse(
        {"kafka.bootstrap.servers": topic.address, "subscribe": topic.name, **more}
    )


def plan(options: SourceOptions) -> Callable[[], object]:
    return lambda: BatchReader(options, Cluster(options)).partitions()


def test_a_plan_of_a_partition_asks_for_its_ends_once(
    new_topic: NewTopic, requests: Requests
) -> None:
    for records in (2, 1000):  # of which the second are too many for a mean to do
        topic = new_topic(1)
        topic.fill(records)
        options = options_of(topic)
        plan(options)()  # connects, and learns who leads
        asked = requests.of(plan(options))
        assert asked == {"metadata": 1, "list_offsets": 2, "fetch": 2}


def test_a_plan_of_many_small_logs_asks_how_large_they_are_and_not_where_they_end_again(
    new_topic: NewTopic, requests: Requests
) -> None:
    topic = new_topic(20)
    topic.fill(200)
    options = options_of(topic)
    plan(options)()
    asked = requests.of(plan(options))
    assert asked == {"metadata": 1, "list_offsets": 2, "fetch": 2, "describe_log_dirs": 1}


def test_a_plan_of_a_state_asks_no_more_than_its_claims_need(
    new_topic: NewTopic, requests: Requests
) -> None:
    topic = new_topic(1)
    topic.fill(10)
    options = StateOptions.of(topic.name, topic.address, ("key", "value"), {})

    def run() -> None:
        plan_state(options, limit_of(None, topic.name, "at"))

    run()
    asked = requests.of(run)
    # Two of the four are the claims' own: the end once more, after they were made.
    assert asked == {"metadata": 1, "list_offsets": 4, "fetch": 2}
