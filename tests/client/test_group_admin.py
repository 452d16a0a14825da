"""What administrators are told of groups' offsets when a broker tells only a part."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from drumlin.client.group_admin import fetch_committed
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.options import PeerOptions
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape
from rig.scripted_broker import ScriptedBroker


def test_a_partition_that_is_refused_is_not_taken_for_one_without_offset() -> None:
    with ScriptedBroker() as broker:

        def find_coordinator(shape: Shape, request: Any) -> Any:
            found = shape(
                "Coordinator",
                key="g",
                node_id=1,
                host="127.0.0.1",
                port=broker.port,
                error_code=ErrorCode.none,
                error_message=None,
            )
            return shape("FindCoordinatorResponse", throttle_time=ZERO, coordinators=(found,))

        def offset_fetch(shape: Shape, request: Any) -> Any:
            each = shape(
                "OffsetFetchResponsePartitions",
                partition_index=3,
                committed_offset=-1,
                committed_leader_epoch=-1,
                metadata="",
                error_code=ErrorCode.topic_authorization_failed,
            )
            topic = shape("OffsetFetchResponseTopics", name="t", partitions=(each,))
            group = shape(
                "OffsetFetchResponseGroup", group_id="g", topics=(topic,), error_code=ErrorCode.none
            )
            return shape("OffsetFetchResponse", throttle_time=ZERO, groups=(group,))

        broker.script("find_coordinator", find_coordinator)
        broker.script("offset_fetch", offset_fetch)

        async def ask() -> None:
            connections = BrokerConnections(parse_bootstrap(broker.address), PeerOptions())
            try:
                await fetch_committed(connections, "g")
            finally:
                await connections.close()

        with pytest.raises(KafkaError, match="group 'g': topic 't' partition 3") as caught:
            asyncio.run(ask())
        assert caught.value.code is ErrorCode.topic_authorization_failed
