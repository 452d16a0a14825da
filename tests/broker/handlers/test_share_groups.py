"""Share groups over the wire: their APIs as members and tools use them, and restarts."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from drumlin.broker.start.broker import Broker
from drumlin.coordination.groups.share.messages import ShareHeartbeat
from drumlin.coordination.share.state.state import ShareState, StateBatch
from drumlin.metadata.image import Resource, ResourceType
from drumlin.metadata.names import SHARE_GROUP_STATE
from rig.waiting import wait_until

Ask = Callable[..., Any]

_GROUP, _TOPIC, _BROKER, _METRICS = 32, 2, 4, 16


@pytest.fixture
def group(ask: Ask, topic_name: Callable[[str], str]) -> str:
    """The name of a group whose coordinator is there."""
    name = topic_name("share-group")

    def is_there() -> bool:
        (found,) = ask("find_coordinator", 4, key_type=0, coordinator_keys=[name])["coordinators"]
        (known,) = _describe(ask, name)
        return found["error_code"] == "none" and known["error_code"] == "group_id_not_found"

    wait_until(is_there, f"the coordinator of {name}")
    return name


def _beat(ask: Ask, group: str, member: str, epoch: int, *topics: str, **fields: Any) -> Any:
    names = list(topics) or None
    asked = {"member_id": member, "member_epoch": epoch, "subscribed_topic_names": names}
    return ask(
        "share_group_heartbeat", 1, **{"group_id": group, "rack_id": None, **asked, **fields}
    )


def _describe(ask: Ask, *groups: str) -> Any:
    asked = {"group_ids": list(groups), "include_authorized_operations": False}
    return ask("share_group_describe", 1, **asked)["groups"]


def _offsets(ask: Ask, group: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Start offset and lag by topic and partition."""
    groups = [{"group_id": group, "topics": None}]
    (answer,) = ask("describe_share_group_offsets", 1, groups=groups)["groups"]
    assert answer["error_code"] == "none"
    return {
        (topic["topic_name"], each["partition_index"]): (each["start_offset"], each["lag"])
        for topic in answer["topics"]
        for each in topic["partitions"]
    }


def test_a_group_from_its_first_member_to_its_end(
    ask: Ask, group: str, create: Callable[..., str]
) -> None:
    topic = create(partitions=2)
    joined = _beat(ask, group, "a", 0, topic)
    assert joined["error_code"] == "none"
    assert joined["heartbeat_interval"] == 5_000
    (assigned,) = joined["assignment"]["topic_partitions"]
    assert assigned["partitions"] == [0, 1]
    epoch = joined["member_epoch"]
    assert _beat(ask, group, "a", epoch)["assignment"] is None
    (known,) = _describe(ask, group)
    assert (known["group_state"], known["assignor_name"]) == ("Stable", "simple")
    (member,) = known["members"]
    assert (member["member_id"], member["member_epoch"]) == ("a", epoch)
    assert member["assignment"]["topic_partitions"][0]["topic_name"] == topic
    assert _offsets(ask, group) == {(topic, 0): (-1, -1), (topic, 1): (-1, -1)}
    assert ask("delete_groups", 2, groups_names=[group])["results"][0]["error_code"] == (
        "non_empty_group"
    )
    assert _beat(ask, group, "a", -1)["member_epoch"] == -1
    listed = ask("list_groups", 5, states_filter=["Empty"], types_filter=["share"])["groups"]
    (entry,) = [each for each in listed if each["group_id"] == group]
    assert (entry["protocol_type"], entry["group_type"]) == ("share", "share")
    altered = [{"topic_name": topic, "partitions": [{"partition_index": 1, "start_offset": 0}]}]
    answer = ask("alter_share_group_offsets", 0, group_id=group, topics=altered)
    assert answer["error_code"] == "none"
    assert _offsets(ask, group)[topic, 1] == (0, 0)
    gone = ask("delete_share_group_offsets", 0, group_id=group, topics=[{"topic_name": topic}])
    assert gone["responses"][0]["error_code"] == "none"
    assert _offsets(ask, group) == {}
    assert ask("delete_groups", 2, groups_names=[group])["results"][0]["error_code"] == "none"
    assert _describe(ask, group)[0]["error_code"] == "group_id_not_found"


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": ""},
        {"group_id": ""},
        {"rack_id": " "},
        {"subscribed_topic_names": []},
        {"member_epoch": -2},
    ],
)
def test_requests_that_make_no_sense(ask: Ask, group: str, fields: dict[str, Any]) -> None:
    answer = _beat(ask, group, "a", 0, "t", **fields)
    assert answer["error_code"] == "invalid_request"
    assert answer["assignment"] is None


def test_resources_with_a_configuration(ask: Ask, group: str, create: Callable[..., str]) -> None:
    topic = create()
    setting = {"name": "share.heartbeat.interval.ms", "config_operation": 0, "value": "7000"}
    resource = {"resource_type": _GROUP, "resource_name": group, "configs": [setting]}
    ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)

    def listed(*types: int) -> set[tuple[int, str]]:
        answer = ask("list_config_resources", 1, resource_types=list(types))
        assert answer["error_code"] == "none"
        return {
            (each["resource_type"], each["resource_name"]) for each in answer["config_resources"]
        }

    assert (_GROUP, group) in listed(_GROUP)
    assert (_TOPIC, topic) in listed(_TOPIC)
    assert listed(_METRICS) == set()
    assert {(_GROUP, group), (_TOPIC, topic)} <= listed()
    assert len(listed(_BROKER)) == 1
    answer = ask("list_config_resources", 1, resource_types=[3])
    assert answer["error_code"] == "unsupported_version"
    assert ask("list_config_resources", 0)["config_resources"] == []
    assert _beat(ask, group, "a", 0, topic)["heartbeat_interval"] == 7_000


# -- restarts --------------------------------------------------------------------------------

_SETTINGS = {
    "group_share_assignment_interval_ms": "0",
    "share_coordinator_state_topic_num_partitions": "1",
    "share_coordinator_snapshot_update_records_per_snapshot": "2",
}


async def _heartbeat(broker: Broker, member: str, epoch: int, *topics: str) -> int:
    request = ShareHeartbeat(member, epoch, None, "client", "/host", topics or None)
    return (await broker.share_groups.heartbeat("g", request)).member_epoch


async def _begin(broker: Broker) -> tuple[uuid.UUID, int]:
    """A group with one member in a topic with two partitions: its id, and the member's epoch."""
    topic = await broker.metadata.create_topic("t", [[broker.node_id]] * 2, {})
    await broker.groups.find_partition("g")
    return topic.topic_id, await _heartbeat(broker, "a", 0, "t")


async def _loaded(broker: Broker) -> None:
    for _ in range(1_000):
        if broker.share_groups.is_share_group("g"):
            return
        await asyncio.sleep(0.01)
    pytest.fail("the group was not loaded")


def test_a_group_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, **_SETTINGS) as broker:
            topic_id, epoch = await _begin(broker)
            await broker.metadata.alter_configs(
                Resource(ResourceType.GROUP, "g"), lambda _: {"share.delivery.count.limit": "9"}
            )
            await broker.share_state.read("g", topic_id, 1, leader_epoch=3)
            batches = (StateBatch(4, 6, 2, 1),)
            change = ShareState(epoch, 3, 4, 3, batches)
            await broker.share_state.write("g", topic_id, 1, change)
        async with running(tmp_path, **_SETTINGS) as broker:
            await _loaded(broker)
            assert await _heartbeat(broker, "a", epoch) == epoch
            state = await broker.share_state.read("g", topic_id, 1)
            assert (state.leader_epoch, state.start_offset, state.batches) == (3, 4, batches)
            own = broker.metadata.image.configs(Resource(ResourceType.GROUP, "g"))
            assert own == {"share.delivery.count.limit": "9"}

    asyncio.run(main())


def test_redundant_records_are_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, **_SETTINGS) as broker:
            topic_id, epoch = await _begin(broker)
            for offset in range(20):
                for partition in range(2):
                    change = ShareState(epoch, -1, offset, 0)
                    await broker.share_state.write("g", topic_id, partition, change)
            log = broker.partitions.get(SHARE_GROUP_STATE, 0).log
            before = log.log_end_offset
            await broker.share_state.prune()
            assert before - 8 < log.log_start_offset <= before
        async with running(tmp_path, **_SETTINGS) as broker:
            for partition in range(2):
                state = await broker.share_state.read("g", topic_id, partition)
                assert state.start_offset == 19

    asyncio.run(main())


def test_states_go_with_their_topic(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, **_SETTINGS) as broker:
            topic_id, epoch = await _begin(broker)
            await broker.metadata.delete_topic(topic_id)
            assert await _heartbeat(broker, "a", epoch) > epoch
            assert broker.share_groups.initialized("g") == {}
        async with running(tmp_path, **_SETTINGS) as broker:
            await _loaded(broker)
            group = broker.share_groups.group("g")
            assert not group.partitions.initialized
            assert group.describe()[0].assignment == {}

    asyncio.run(main())


def test_asking_for_states_creates_no_topic(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, **_SETTINGS) as broker:
            topic = await broker.metadata.create_topic("t", [[broker.node_id]], {})
            state = await broker.share_state.summary("g", topic.topic_id, 0)
            assert (state.state_epoch, state.start_offset) == (0, -1)
            await broker.share_state.delete("g", topic.topic_id, 0)
            assert SHARE_GROUP_STATE not in broker.metadata.image.topics

    asyncio.run(main())
