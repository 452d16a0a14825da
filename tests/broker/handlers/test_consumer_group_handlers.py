"""ConsumerGroupHeartbeat and ConsumerGroupDescribe over a log in memory, version by version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.group_client import Client, ms, versions, with_client
from drumlin.config.broker import BrokerConfig
from drumlin.wire.error_codes import ErrorCode
from rig.data.messages import request_shape

_NONE = ErrorCode.none


async def join(client: Client, version: int, member_id: str = "m-1", **fields: Any) -> Any:
    """What a member says first."""
    request = {
        "member_epoch": 0,
        "rebalance_timeout": ms(30_000),
        "subscribed_topic_names": ("t",),
        "topic_partitions": (),
    }
    return await beat(client, version, member_id, **request | fields)


async def beat(client: Client, version: int, member_id: str = "m-1", **fields: Any) -> Any:
    request = {
        "group_id": "g",
        "member_id": member_id,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": ms(-1),
        "subscribed_topic_names": None,
        "server_assignor": None,
        "topic_partitions": None,
    }
    if version >= 1:
        request["subscribed_topic_regex"] = None
    return await client.ask("consumer_group_heartbeat", version, **request | fields)


async def describe(client: Client, version: int, *group_ids: str) -> list[Any]:
    asked = {"group_ids": group_ids, "include_authorized_operations": True}
    return list((await client.ask("consumer_group_describe", version, **asked)).groups)


@pytest.mark.parametrize("version", versions("consumer_group_heartbeat"))
def test_a_member_joins_goes_on_and_leaves(version: int) -> None:
    async def run(client: Client) -> None:
        first = await join(client, version)
        assert (first.error_code, first.member_id, first.member_epoch) == (_NONE, "m-1", 2)
        assert first.heartbeat_interval == ms(5_000)
        (topic,) = first.assignment.topic_partitions
        assert topic.partitions == (0, 1)
        nothing_new = await beat(client, version, member_epoch=2)
        assert (nothing_new.member_epoch, nothing_new.assignment) == (2, None)
        shape = request_shape("consumer_group_heartbeat", version)
        own = shape("TopicPartitions", topic_id=topic.topic_id, partitions=(0, 1))
        owning = await beat(client, version, member_epoch=2, topic_partitions=(own,))
        assert owning.error_code is _NONE
        left = await beat(client, version, member_epoch=-1)
        assert (left.error_code, left.member_epoch) == (_NONE, -1)
        again = await beat(client, version, member_epoch=2)
        assert (again.error_code, again.member_id) == (ErrorCode.unknown_member_id, None)
        assert "m-1" in again.error_message

    with_client(run)


def test_who_makes_the_id() -> None:
    async def run(client: Client) -> None:
        made = await join(client, 0, member_id="")
        assert made.error_code is _NONE
        assert made.member_id
        refused = await join(client, 1, member_id="")
        assert refused.error_code is ErrorCode.invalid_request

    with_client(run)


@pytest.mark.parametrize("version", versions("consumer_group_describe"))
def test_groups_are_described(version: int) -> None:
    async def run(client: Client) -> None:
        await join(client, 1, instance_id="red", rack_id="r", server_assignor="range")
        group, missing, nameless = await describe(client, version, "g", "missing", "")
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
        assert (group.assignor_name, group.authorized_operations) == ("range", 0b110101001000)
        (member,) = group.members
        assert (member.member_id, member.instance_id, member.rack_id) == ("m-1", "red", "r")
        assert (member.client_id, member.client_host) == ("c", "/127.0.0.1")
        assert member.subscribed_topic_names == ("t",)
        for assignment in (member.assignment, member.target_assignment):
            (topic,) = assignment.topic_partitions
            assert (topic.topic_name, topic.partitions) == ("t", (0, 1))
        if version >= 1:
            assert member.member_type == 1
        assert missing.error_code is ErrorCode.group_id_not_found
        assert nameless.error_code is ErrorCode.invalid_group_id

    with_client(run)


def test_the_protocol_can_be_refused() -> None:
    async def run(client: Client) -> None:
        settings = {"group.coordinator.rebalance.protocols": "classic"}
        client.broker.config = BrokerConfig.load(settings)
        answer = await join(client, 1)
        assert answer.error_code is ErrorCode.unsupported_version
        (group,) = await describe(client, 1, "g")
        assert group.error_code is ErrorCode.unsupported_version

    with_client(run)


def test_a_log_that_takes_nothing() -> None:
    """The member is told, and nothing has happened."""

    async def run(client: Client) -> None:
        client.broker.log.error = ErrorCode.kafka_storage_error
        refused = await join(client, 1)
        assert refused.error_code is ErrorCode.not_coordinator
        client.broker.log.error = None
        (group,) = await describe(client, 1, "g")
        assert group.error_code is ErrorCode.group_id_not_found
        assert (await join(client, 1)).error_code is _NONE

    with_client(run)


def test_what_a_member_owns_counts_however_it_names_it() -> None:
    """A partition that it still has and that is overlooked would go to another member too."""

    async def run(client: Client) -> None:
        topic_id = (await join(client, 1)).assignment.topic_partitions[0].topic_id
        shape = request_shape("consumer_group_heartbeat", 1)
        other = await join(client, 1, "m-2")
        own = [shape("TopicPartitions", topic_id=topic_id, partitions=(each,)) for each in (1, 0)]
        told = None
        async with asyncio.timeout(30):  # an assignment is made once a second
            while told is None or told.assignment is None:
                await asyncio.sleep(0.05)
                told = await beat(client, 1, member_epoch=2)
        (kept,) = told.assignment.topic_partitions
        assert kept.partitions == (0,)
        await beat(client, 1, member_epoch=2, topic_partitions=own)
        other = await beat(client, 1, "m-2", member_epoch=other.member_epoch)
        assert other.error_code is _NONE
        assert other.assignment is None or not other.assignment.topic_partitions
        await beat(client, 1, member_epoch=2, topic_partitions=own[1:])
        async with asyncio.timeout(30):
            while not (other.assignment and other.assignment.topic_partitions):
                await asyncio.sleep(0.05)
                other = await beat(client, 1, "m-2", member_epoch=other.member_epoch)
        assert other.assignment.topic_partitions[0].partitions == (1,)

    with_client(run)
