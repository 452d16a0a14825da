"""The traffic that the metrics show is what a real client did."""

from __future__ import annotations

import re
from contextlib import closing, suppress

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from broker.metrics.watched import VALUE, Watched
from drumlin.broker.traffic.topic_counts import TrafficByTopic
from rig.waiting import wait_until

pytestmark = pytest.mark.clients


def test_records_and_requests_are_those_of_a_client(watched: Watched) -> None:
    watched.create("flights")
    watched.produce("flights", 7)
    watched.read("flights", 7)
    seen = watched.now()
    assert seen['drumlin_topic_received_records_total{topic="flights"}'] == 7
    received = seen['drumlin_topic_received_bytes_total{topic="flights"}']
    assert received > 7 * len(VALUE)
    assert seen['drumlin_topic_sent_bytes_total{topic="flights"}'] >= received
    at = '{api="Produce",listener="PLAINTEXT"}'
    requests = seen[f"drumlin_requests_total{at}"]
    assert 1 <= requests <= 7
    assert seen[f"drumlin_request_seconds_count{at}"] == requests
    assert seen['drumlin_request_seconds_bucket{api="Produce",le="+Inf",listener="PLAINTEXT"}'] == (
        requests
    )
    parts = ("queue", "local", "remote", "send")
    times = [seen[f"drumlin_request_{part}_seconds_total{at}"] for part in parts]
    assert seen[f"drumlin_request_seconds_sum{at}"] == pytest.approx(sum(times), abs=1e-6)
    assert seen['drumlin_network_received_bytes_total{listener="PLAINTEXT"}'] > received
    assert seen['drumlin_network_sent_bytes_total{listener="PLAINTEXT"}'] > received


def test_errors_have_their_code(watched: Watched) -> None:
    watched.create("small")
    settings = {"bootstrap.servers": watched.server.address, "message.max.bytes": 10_000_000}
    refused = Producer(settings)
    refused.produce("small", bytes(2_000_000), partition=0)
    refused.flush(30)
    with pytest.raises(KafkaException):
        next(iter(watched.admin.create_topics([NewTopic("small", 1, 1)]).values())).result(30)
    with closing(Consumer({"bootstrap.servers": watched.server.address, "group.id": "x"})) as one:
        one.assign([TopicPartition("small", 0, 1000)])
        one.poll(1)
        with suppress(KafkaException):
            one.list_topics("absent", 10)

    def error(api: str, name: str) -> str:
        at = f'{{api="{api}",error="{name}",listener="PLAINTEXT"}}'
        return f"drumlin_request_errors_total{at}"

    seen = watched.now()
    assert seen[error("Produce", "MESSAGE_TOO_LARGE")] == 1
    assert seen['drumlin_topic_produce_failures_total{topic="small"}'] == 1
    assert seen[error("CreateTopics", "TOPIC_ALREADY_EXISTS")] == 1
    assert seen[error("Metadata", "UNKNOWN_TOPIC_OR_PARTITION")] >= 1
    wait_until(
        lambda: watched.now().get(error("Fetch", "OFFSET_OUT_OF_RANGE"), 0) >= 1, "a refused fetch"
    )


def test_connections_are_opened_and_closed(watched: Watched) -> None:
    def connections(kind: str) -> float:
        return watched.now()[f'drumlin_connections{kind}{{listener="PLAINTEXT"}}']

    opened, closed, now = map(connections, ("_opened_total", "_closed_total", ""))
    client = watched.server.connect()
    wait_until(lambda: connections("_opened_total") >= opened + 1, "it to be opened")
    assert connections("") >= now
    client.close()
    wait_until(lambda: connections("_closed_total") >= closed + 1, "it to be closed")


def test_throttled_time_names_the_client(watched: Watched) -> None:
    entity = [{"entity_type": "client-id", "entity_name": "hasty"}]
    op = {"key": "producer_byte_rate", "value": 100.0, "remove": False}
    watched.create("quota")
    with watched.server.connect() as client:
        for remove in (False, True):
            entry = {"entity": entity, "ops": [op | {"remove": remove}]}
            client.ask("alter_client_quotas", 1, entries=[entry], validate_only=False)
            if not remove:
                hasty = Producer(
                    {"bootstrap.servers": watched.server.address, "client.id": "hasty"}
                )
                hasty.produce("quota", bytes(10_000), partition=0)
                assert hasty.flush(30) == 0
    seen = watched.now()
    at = '{client_id="hasty",user="ANONYMOUS"}'
    throttled_s = seen[f"drumlin_throttled_seconds_total{at}"]
    assert throttled_s >= 1
    at = '{api="Produce",listener="PLAINTEXT"}'
    assert seen[f"drumlin_request_throttled_seconds_total{at}"] >= throttled_s


def test_topics_that_are_not_chosen_are_summed(watched: Watched) -> None:
    def records(topic: str) -> float | None:
        return watched.now().get(f'drumlin_topic_received_records_total{{topic="{topic}"}}')

    watched.create("chosen", "NotChosen")
    before = records("") or 0
    watched.produce("NotChosen", 2)
    watched.produce("chosen", 4)
    assert (records("chosen"), records("NotChosen"), records("")) == (4, None, before + 2)
    for topic in ("chosen", "NotChosen"):
        next(iter(watched.admin.delete_topics([topic]).values())).result(30)
    wait_until(lambda: records("chosen") is None, "the end of its metrics")
    assert records("") == before + 2


def test_a_topic_gets_a_place_when_another_leaves_it() -> None:
    traffic = TrafficByTopic(re.compile("[a-z]+"), 2)
    traffic.note(["a", "B", "b", "c"])
    assert [name for name, counts in traffic.items() if counts.has_series] == ["a", "b"]
    traffic.forget("a")
    traffic.note(["c", "d"])
    assert [name for name, counts in traffic.items() if counts.has_series] == ["b", "d"]
