"""A consumer group that lives on through changes of brokers: Kafka's, ours, Kafka's again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from coordination.groups.classic.scenario import subscription
from coordination.memory_log import KnownTopics, default_setting
from coordination.settings import Settings
from drumlin.clock import ManualClock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.classic.records import GroupKey, GroupMetadata, MemberMetadata
from drumlin.coordination.groups.consumer.conversion import to_consumer
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.heartbeats import heartbeat
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.every_kind.group_context import GroupContext
from drumlin.coordination.groups.shard.log import encode_batches, load
from drumlin.coordination.shards.state_batches import Producer
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.control_records import encode_marker
from drumlin.storage.producers.producer_state import TransactionMarker
from drumlin.turns import to_end
from drumlin.wire.embedded_protocol import write_assignment
from drumlin.wire.error_codes import ErrorCode
from rig.data.raw import Closed, RawClient
from rig.waiting import wait_until

GROUP: Final = "lives-on"
CONVERTED: Final = "converted"
_CLASSIC: Final = ("c-1", "c-2", "c-3")
_JOINING: Final[dict[str, Any]] = {"rebalance_timeout": 30_000, "topic_partitions": []}


def join_at_kafka(port: int, topic: str) -> None:
    """A first member, `a-1`."""
    with RawClient(port) as client:
        asked = {"key_type": 0, "coordinator_keys": [GROUP]}
        named = {"group_id": GROUP, "member_id": "a-1", "subscribed_topic_names": [topic]}

        def joined() -> bool:
            client.ask("find_coordinator", 4, **asked)
            told = client.ask("consumer_group_heartbeat", 1, member_epoch=0, **named, **_JOINING)
            return bool(told.error_code == ErrorCode.none)

        wait_until(joined, "a member of Kafka's group")


def join_here(log: PartitionLog, folder: Path, topic: str, now_ms: int) -> None:
    """Kafka's records are understood; a second member, `b-2`, adds ours."""
    data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    topics = KnownTopics()
    topics.put(topic, 1)
    rules, clock = Settings(), ManualClock(now_ms)
    group = ConsumerGroup(
        GROUP, GroupContext(rules, default_setting, clock, DeadlineQueue(), str, topics)
    )
    to_end(group.restore(load([data]).groups[GROUP].records))
    (member,) = group.members.values()
    assert (member.member_id, member.subscription.topics) == ("a-1", frozenset({topic}))
    assert (group.state_name, group.epoch, member.epoch) == ("Stable", 2, 2)
    assert [list(epochs) for epochs in member.progress.assigned.values()] == [[0]]
    request = HeartbeatRequest(
        "b-2", 0, "ours", "/127.0.0.1", None, None, 30_000, frozenset({topic}), owned={}
    )
    for batch, _ in encode_batches(heartbeat(group, request).records, now_ms):
        log.append_internal(batch, 0, now_ms)


def convert_here(log: PartitionLog, topic: str, now_ms: int) -> None:
    """A classic group becomes a consumer group, by more than one batch."""
    topics, rules, clock = KnownTopics(), Settings(), ManualClock(now_ms)
    topics.put(topic, 1)
    group = Group(CONVERTED, rules, clock, DeadlineQueue(), str)
    nothing = write_assignment(0, {})
    members = [
        MemberMetadata(name, None, "c", "/h", 30_000, 30_000, subscription(topic), nothing)
        for name in _CLASSIC
    ]
    metadata = GroupMetadata("consumer", 3, "range", _CLASSIC[0], now_ms, tuple(members))
    to_end(group.restore_metadata(metadata))
    was = encode_batches([(GroupKey(CONVERTED), metadata)], now_ms)
    producer = Producer(7_000, 0)
    becomes = encode_batches(to_consumer(group, topics), now_ms, 0, producer, bytes_max=100)
    assert len(becomes) > 2
    for batch, _ in [*was, *becomes]:
        log.append_internal(batch, 0, now_ms)
    marker = encode_marker(TransactionMarker(True, 0), *producer, now_ms)
    log.append_internal(marker, 0, now_ms)


def go_on_at_kafka(port: int) -> None:
    """Kafka has both members, and takes the heartbeat of ours; and the group that was converted."""

    def described(group_id: str = GROUP) -> Any:
        asked = {"group_ids": [group_id], "include_authorized_operations": False}
        try:
            with RawClient(port) as client:
                (group,) = client.ask("consumer_group_describe", 1, **asked).groups
        except Closed:  # Kafka does so with a request that comes before its groups can answer
            return None
        return group if group.error_code == ErrorCode.none else None

    group = wait_until(described, "Kafka to have loaded the group")
    with RawClient(port) as client:
        converted = described(CONVERTED)
        assert {each.member_id for each in converted.members} == set(_CLASSIC)
        assert (converted.group_epoch, converted.assignment_epoch) == (3, 3)
        members = {each.member_id: each for each in group.members}
        assert members.keys() == {"a-1", "b-2"}
        assert members["b-2"].client_id == "ours"
        ours = members["b-2"].member_epoch
        named = {"group_id": GROUP, "member_id": "b-2", "member_epoch": ours}
        told = client.ask("consumer_group_heartbeat", 1, topic_partitions=None, **named)
        assert told.error_code == ErrorCode.none
