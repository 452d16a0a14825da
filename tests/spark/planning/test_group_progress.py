"""`commitOffsetsToGroup`: tools for consumer groups see how far a query is."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from drumlin.cli.groups import groups
from drumlin.spark.options.offsets import TopicPartition as Key
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.planning.group_progress import GroupProgress
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import CloseConnection, ScriptedBroker, Silence
from rig.servers.apache_kafka import run_tool
from rig.waiting import wait_until
from spark.topics import Topic

MakeQuery = Callable[..., Any]


@pytest.fixture(
    params=["drumlin", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.deep])]
)
def topic(request: pytest.FixtureRequest) -> Topic:
    """Ten records in each of two partitions, on each kind of broker."""
    topic = Topic(request.getfixturevalue(f"{request.param}_address"), 2).create()
    topic.fill(20)
    return topic


@pytest.fixture
def start(spark: SparkSession, topic: Topic, tmp_path: Path) -> MakeQuery:
    """Starts the query, with a trigger."""

    def start(**trigger: Any) -> Any:
        options = topic.options(
            startingOffsets="earliest", commitOffsetsToGroup=topic.name, maxOffsetsPerTrigger=8
        )
        stream = spark.readStream.format("drumlin").options(**options).load()
        query = stream.writeStream.format("noop").trigger(**trigger)
        return query.option("checkpointLocation", str(tmp_path)).start()

    return start


def committed(topic: Topic) -> dict[int, int]:
    """What the topic's group has committed, as Kafka's client sees it."""
    admin = AdminClient({"bootstrap.servers": topic.address})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic.name)])
    found = asked[topic.name].result(30).topic_partitions
    return {each.partition: each.offset for each in found}


@pytest.mark.spark
def test_the_last_batch_is_committed_too_and_tools_show_the_lag(
    topic: Topic, start: MakeQuery
) -> None:
    start(availableNow=True).awaitTermination()
    assert committed(topic) == {0: 10, 1: 10}
    topic.fill(6)
    shown = CliRunner().invoke(
        groups.app, ["describe", topic.name, "--json", "--bootstrap", topic.address]
    )
    assert shown.exit_code == 0, shown.output
    (group,) = json.loads(shown.output)
    assert group["state"] == "Empty"
    assert [each["lag"] for each in group["offsets"]] == [3, 3]


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.deep
def test_kafkas_own_tool_shows_the_lag(
    spark: SparkSession, kafka_address: str, tmp_path: Path
) -> None:
    topic = Topic(kafka_address, 1).create()
    topic.fill(10)
    options = topic.options(startingOffsets="earliest", commitOffsetsToGroup=topic.name)
    stream = spark.readStream.format("drumlin").options(**options).load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query.trigger(availableNow=True).start().awaitTermination()
    topic.fill(3)
    command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    told = run_tool(
        command, "--bootstrap-server", kafka_address, "--describe", "--group", topic.name
    )
    assert [topic.name, topic.name, "0", "10", "13", "3"] in [
        line.split()[:6] for line in told.splitlines()
    ]


@pytest.mark.spark
def test_a_query_that_goes_on_commits_what_it_has_done(topic: Topic, start: MakeQuery) -> None:
    query = start(processingTime="50 milliseconds")
    try:
        wait_until(lambda: committed(topic) == {0: 10, 1: 10}, "the offsets to be committed")
        topic.fill(2)
        wait_until(lambda: committed(topic) == {0: 11, 1: 11}, "the new ones to be committed")
    finally:
        query.stop()


@pytest.mark.spark
def test_a_group_with_members_is_refused(topic: Topic, start: MakeQuery) -> None:
    settings = {"bootstrap.servers": topic.address, "group.id": topic.name}
    consumer = Consumer(settings | {"enable.auto.commit": False, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic.name])
        wait_until(lambda: consumer.poll(0.5) is not None, "the consumer to be a member")
        with pytest.raises(StreamingQueryException, match=f"{topic.name}' is in use"):
            start(availableNow=True).awaitTermination()
        places = consumer.committed([TopicPartition(topic.name, each) for each in (0, 1)], 30)
        assert all(each.offset < 0 for each in places)
    finally:
        consumer.close()


# -- a broker that makes trouble ----------------------------------------------------------------


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}) as broker:
        broker.script("find_coordinator", lambda *_: CloseConnection())
        yield broker


def progress(broker: ScriptedBroker) -> GroupProgress:
    options = {
        "kafka.bootstrap.servers": broker.address,
        "subscribe": "t",
        "commitoffsetstogroup": "g",
        "kafka.request.timeout.ms": "200",
    }
    return GroupProgress(SourceOptions.parse(options))


@pytest.mark.parametrize("trouble", [CloseConnection(), Silence()])
def test_a_group_that_cannot_be_told_fails_nothing(
    broker: ScriptedBroker, trouble: Any, caplog: pytest.LogCaptureFixture
) -> None:
    broker.script("find_coordinator", lambda *_: trouble)
    told = progress(broker)
    with caplog.at_level(logging.WARNING):
        for offset in range(5):
            told.report({Key("t", 0): offset}, may_end=True)
    warnings = [each.message for each in caplog.records if each.name.startswith("drumlin.spark")]
    assert len(warnings) == 2  # one for the check, one for all the commits
    assert "cannot be described" in warnings[0]
    assert "were not committed to group 'g'" in warnings[1]


def test_only_what_changed_is_committed(broker: ScriptedBroker) -> None:
    serve_group(broker)
    told = progress(broker)
    for offset in (5, 5, 5, 6, 6):
        told.report({Key("t", 0): offset}, may_end=True)
    commits = broker.asked("offset_commit")
    assert [each.topics[0].partitions[0].committed_offset for each in commits] == [5, 6]
    assert {(each.group_id, each.member_id) for each in commits} == {("g", "")}


def serve_group(broker: ScriptedBroker) -> None:
    """Have the broker be the coordinator of a group that takes every commit."""

    def coordinator(shape: Any, request: Any) -> Any:
        place = {"node_id": broker.node_id, "host": "127.0.0.1", "port": broker.port}
        none = {"error_code": ErrorCode.none, "error_message": None}
        found = tuple(shape("Coordinator", key=key, **place, **none) for key in ["g"])
        return shape("FindCoordinatorResponse", throttle_time=ZERO, coordinators=found)

    def described(shape: Any, request: Any) -> Any:
        group = shape(
            "DescribedGroup",
            error_code=ErrorCode.none,
            error_message=None,
            group_id="g",
            group_state="Empty",
            protocol_type="consumer",
            protocol_data="",
            members=(),
            authorized_operations=0,
        )
        return shape("DescribeGroupsResponse", throttle_time=ZERO, groups=(group,))

    def taken(shape: Any, request: Any) -> Any:
        partition = shape(
            "OffsetCommitResponsePartition", partition_index=0, error_code=ErrorCode.none
        )
        topic = shape("OffsetCommitResponseTopic", name="t", partitions=(partition,))
        return shape("OffsetCommitResponse", throttle_time=ZERO, topics=(topic,))

    broker.script("find_coordinator", coordinator)
    broker.script("describe_groups", described)
    broker.script("offset_commit", taken)
