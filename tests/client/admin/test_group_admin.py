"""What administrators learn about groups' offsets when a broker answers only in part."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.admin.group_admin import fetch_committed
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.options import PeerOptions
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import Answer, ScriptedBroker
from rig.data.messages import Shape


def coordinator(node_id: int) -> Answer:
    def answer(shape: Shape, request: Any) -> Any:
        found = shape(
            "Coordinator",
            key="g",
            node_id=node_id,
            host="127.0.0.1",
            port=1,
            error_code=ErrorCode.none,
            error_message=None,
        )
        return shape("FindCoordinatorResponse", throttle_time=ZERO, coordinators=(found,))

    return answer


def fetched(code: ErrorCode) -> Answer:
    """What is committed for one partition, or why that is not told."""

    def answer(shape: Shape, request: Any) -> Any:
        each = shape(
            "OffsetFetchResponsePartitions",
            partition_index=3,
            committed_offset=-1 if code else 7,
            committed_leader_epoch=-1,
            metadata="",
            error_code=code,
        )
        topic = shape("OffsetFetchResponseTopics", name="t", partitions=(each,))
        group = shape(
            "OffsetFetchResponseGroup", group_id="g", topics=(topic,), error_code=ErrorCode.none
        )
        return shape("OffsetFetchResponse", throttle_time=ZERO, groups=(group,))

    return answer


def committed(broker: ScriptedBroker) -> dict[TopicPartition, OffsetAndMetadata]:
    async def ask() -> dict[TopicPartition, OffsetAndMetadata]:
        options = PeerOptions(retry_backoff_ms=2)
        connections = BrokerConnections(parse_bootstrap(broker.address), options)
        try:
            return await fetch_committed(connections, "g")
        finally:
            await connections.close()

    return asyncio.run(ask())


def test_a_partition_that_is_refused_is_not_taken_for_one_without_offset() -> None:
    with ScriptedBroker() as broker:
        broker.script("find_coordinator", coordinator(1))
        broker.script("offset_fetch", fetched(ErrorCode.topic_authorization_failed))
        with pytest.raises(KafkaError, match="group 'g': topic 't' partition 3") as caught:
            committed(broker)
        assert caught.value.code is ErrorCode.topic_authorization_failed


def test_a_coordinator_that_has_left_the_cluster_is_asked_for_again() -> None:
    """It has died, and no broker has taken over yet: brokers still name it."""
    with ScriptedBroker() as broker:
        broker.script("find_coordinator", coordinator(9), coordinator(9), coordinator(1))
        broker.script("offset_fetch", fetched(ErrorCode.none))
        assert committed(broker) == {("t", 3): OffsetAndMetadata(7)}
