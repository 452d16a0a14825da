"""Topics, their configuration, and places in their logs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import drumlin
from drumlin import lowlevel
from drumlin.client.client import Client
from drumlin.client.errors import RequestRefused, TopicExists, UnknownTopic
from drumlin.client.places import Milliseconds
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import ScriptedBroker
from rig.waiting import wait_until


def test_a_topic_from_its_creation_to_its_end(client: Client) -> None:
    assert client.create_topic("client-life", 2, configs={"retention.ms": "60000"})
    assert "client-life" in client.list_topics()
    assert client.list_topics("client-li.*") == ["client-life"]
    assert client.list_topics("client-li") == []
    assert client.partitions("client-life") == [0, 1]
    described = client.describe_topics(["client-life"])["client-life"]
    assert [each.index for each in described.partitions] == [0, 1]
    assert all(each.leader in each.isr for each in described.partitions)

    client.add_partitions("client-life", 3)
    # Apache Kafka has agreed to it before each broker knows.
    wait_until(lambda: client.partitions("client-life") == [0, 1, 2], "the third partition")

    with pytest.raises(TopicExists, match="client-life"):
        client.create_topic("client-life")
    assert not client.create_topic("client-life", 7, if_not_exists=True)
    assert client.partitions("client-life") == [0, 1, 2]
    client.delete_topic("client-life")
    wait_until(lambda: "client-life" not in client.list_topics(), "the topic to be gone")
    with pytest.raises(UnknownTopic, match="client-life"):
        client.partitions("client-life")
    with pytest.raises(UnknownTopic, match="client-life"):
        client.delete_topic("client-life")


def test_configs_are_set_and_reset(client: Client, topic: str) -> None:
    assert client.topic_configs(topic)["retention.ms"].is_default
    client.set_topic_configs(topic, {"retention.ms": "1234", "cleanup.policy": "compact"})
    # A broker may learn of a change a moment after the controller has answered.
    wait_until(lambda: not client.topic_configs(topic)["retention.ms"].is_default, "the change")
    configs = client.topic_configs(topic)
    assert configs["retention.ms"] == ("1234", False, False)
    assert configs["cleanup.policy"].value == "compact"
    client.set_topic_configs(topic, {"retention.ms": None})
    wait_until(lambda: client.topic_configs(topic)["retention.ms"].is_default, "the change")


def test_a_refusal_says_what_the_broker_said(client: Client, topic: str) -> None:
    with pytest.raises(RequestRefused, match=r"retention\.ms") as refusal:
        client.set_topic_configs(topic, {"retention.ms": "soon"})
    assert refusal.value.code.name == "invalid_config"


def test_offsets_by_name_and_time(client: Client, topic: str) -> None:
    times = [1_000, 2_000, 3_000, 4_000]
    table = pa.table({"value": [b"x"] * 4, "timestamp": times, "partition": [1, 1, 1, 1]})
    client.append(table, topic, partition="partition")

    assert client.offsets(topic, "earliest") == {0: 0, 1: 0, 2: 0}
    assert client.offsets(topic) == {0: 0, 1: 4, 2: 0}
    assert client.offsets(topic, Milliseconds(2_500)) == {0: 0, 1: 2, 2: 0}
    assert client.offsets(topic, datetime.fromtimestamp(4, UTC)) == {0: 0, 1: 3, 2: 0}
    assert client.offsets(topic, Milliseconds(9_000)) == {0: 0, 1: 4, 2: 0}

    then = Milliseconds(2_500)
    found = client.list_offsets({(topic, 1): then, (topic, 0): then, (topic, 2): "latest"})
    assert found[topic, 1][:2] == (2, 3_000)
    assert found[topic, 0].offset == -1
    assert found[topic, 2].offset == 0
    assert client.list_offsets({(topic, 1): "max_timestamp"})[topic, 1][:2] == (3, 4_000)


def test_places_that_do_not_exist(client: Client, topic: str) -> None:
    with pytest.raises(UnknownTopic, match=f"{topic}.*partition 7"):
        client.list_offsets({(topic, 7): "latest"})
    with pytest.raises(UnknownTopic, match="client-nowhere"):
        client.offsets("client-nowhere")
    with pytest.raises(ValueError, match="at 'newest': expected one of 'latest', 'earliest'"):
        client.offsets(topic, "newest")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="time zone"):
        client.offsets(topic, datetime(2020, 1, 1))
    with pytest.raises(TypeError, match="at 3: an int is an offset, not a time: expected"):
        client.offsets(topic, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no times before 1970"):
        client.offsets(topic, datetime(1969, 1, 1, tzinfo=UTC))


def test_a_topic_that_is_missing_does_not_hide_another(client: Client, topic: str) -> None:
    found, refused = lowlevel.look_up_topics(client, [topic, "client-nowhere"])
    assert found.keys() == {topic}
    assert refused == {"client-nowhere": ErrorCode.unknown_topic_or_partition}
    assert lowlevel.look_up_topics(client).found[topic] == found[topic]


def test_the_id_of_a_deleted_topic_is_unknown(client: Client) -> None:
    client.create_topic("client-id", 1)
    topic_id = client.describe_topics(["client-id"])["client-id"].topic_id
    assert topic_id is not None
    assert not lowlevel.is_topic_id_unknown(client, topic_id)
    client.delete_topic("client-id")
    wait_until(lambda: lowlevel.is_topic_id_unknown(client, topic_id), "the id to be gone")


def test_partitions_are_added_to_a_topic_of_which_one_has_no_leader() -> None:
    """It had none before; brokers hear of the new ones some time after they were made."""
    with ScriptedBroker({"t": 2}) as broker:

        def metadata(shape: Any, request: Any) -> Any:
            answer = broker.metadata(shape, request)
            broker.topics["t"] = 4  # from the next time on
            (topic,) = answer.topics
            first = replace(topic.partitions[0], leader_id=-1)
            return replace(
                answer, topics=(replace(topic, partitions=(first, *topic.partitions[1:])),)
            )

        def created(shape: Any, request: Any) -> Any:
            result = shape("CreatePartitionsTopicResult", name="t", error_code=ErrorCode.none)
            return shape("CreatePartitionsResponse", throttle_time=ZERO, results=(result,))

        broker.script("metadata", broker.metadata, metadata)
        broker.script("create_partitions", created)
        with drumlin.connect(broker.address, request_timeout_ms=2_000) as client:
            client.add_partitions("t", 4)
            assert client.partitions("t") == [0, 1, 2, 3]
            assert len(broker.asked("metadata")) >= 3


def test_records_are_deleted(client: Client, topic: str) -> None:
    rows = {"value": list("abcdef"), "partition": [0, 0, 0, 1, 1, 1]}
    client.append(rows, topic, partition="partition")
    assert client.delete_records(topic, [0], before=2) == {0: 2}
    assert client.read(topic, decode="utf8")["value"].to_pylist() == list("cdef")
    assert client.delete_records(topic, [0], before=1) == {0: 2}, "a log's start never moves back"
    assert client.delete_records(topic, [0, 1], before={0: "latest", 1: 1}) == {0: 3, 1: 1}
    assert client.offsets(topic, "earliest") == {0: 3, 1: 1, 2: 0}
    assert client.delete_records(topic, before="latest") == {0: 3, 1: 3, 2: 0}
    assert client.read(topic).num_rows == 0


def test_records_that_cannot_be_deleted(client: Client, topic: str) -> None:
    rows = {"value": list("ab"), "partition": [0, 1]}
    client.append(rows, topic, partition="partition")
    with pytest.raises(RequestRefused, match="partition 1") as refused:
        client.delete_records(topic, [0, 1], before={0: 1, 1: 2})
    assert refused.value.code is ErrorCode.offset_out_of_range
    assert refused.value.__notes__ == ["other partitions start here now: {0: 1}"]
    with pytest.raises(UnknownTopic):
        client.delete_records(topic, [7], before=0)
    with pytest.raises(ValueError, match=r"before has partitions \[0\], but \[0, 1\] are read"):
        client.delete_records(topic, [0, 1], before={0: 1})
    with pytest.raises(TypeError, match="before 'earliest': expected 'latest' or an offset"):
        client.delete_records(topic, before="earliest")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="before -1: expected 0 to"):
        client.delete_records(topic, before=-1)


def test_partitions_are_told_by_name(client: Client, topic: str) -> None:
    """And taken as plain tuples, too."""
    wanted: dict[tuple[str, int], Any] = {(topic, 0): "latest"}
    (place,) = client.list_offsets(wanted)
    assert isinstance(place, drumlin.TopicPartition)
    assert (place.topic, place.partition, str(place)) == (topic, 0, f"{topic}-0")
    assert place == (topic, 0)
    with client.consumer(assign=[(topic, 1)]) as consumer:
        assert {each.partition for each in consumer.assignment} == {1}
        consumer.pause([(topic, 1)])
        assert consumer.paused == {drumlin.TopicPartition(topic, 1)}
