"""Groups from outside: their lag, their reset, and members that are removed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from drumlin.client.admin import share_group_admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.client import Client
from drumlin.client.consumer import Consumer
from drumlin.client.errors import CommitFailed, RequestRefused, UnknownTopic
from drumlin.client.topic_partition import TopicPartition
from rig.brokers.drumlin_server import DrumlinServer
from rig.waiting import wait_until


def _append(client: Client, topic: str, counts: tuple[int, ...]) -> None:
    partitions = [each for each, count in enumerate(counts) for _ in range(count)]
    rows = {"value": ["x"] * sum(counts), "p": partitions}
    client.append({**rows, "timestamp": [*range(sum(counts))]}, topic, partition="p")


def test_lag_and_reset(client: Client, topic: str) -> None:
    group = f"of-{topic}"
    assert client.group_lag(group) == {}
    _append(client, topic, (5, 3, 0))
    client.commit_offsets(group, {(topic, 0): 2, (topic, 1): 3})
    assert client.group_lag(group) == {(topic, 0): (2, 5, 3), (topic, 1): (3, 3, 0)}
    assert client.group_lag(group)[topic, 0].lag == 3

    at_first = client.reset_offsets(group, "earliest", dry_run=True)
    assert at_first == {(topic, 0): 0, (topic, 1): 0}
    assert client.group_lag(group)[topic, 0].lag == 3
    assert client.reset_offsets(group, "earliest") == at_first
    assert client.reset_offsets(group, 4) == {(topic, 0): 4, (topic, 1): 3}
    third = datetime.fromtimestamp(0.003, UTC)
    assert client.reset_offsets(group, third, partitions=[(topic, 0)]) == {(topic, 0): 3}
    assert client.reset_offsets(group, "latest", topics=[topic])[topic, 2] == 0
    assert {each.lag for each in client.group_lag(group).values()} == {0}
    with pytest.raises(UnknownTopic, match="partition 9"):
        client.reset_offsets(group, "latest", partitions=[(topic, 9)])
    with pytest.raises(ValueError, match="to 'last'"):
        client.reset_offsets(group, "last")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="topics"):
        client.reset_offsets(group, "latest", topics=topic)
    client.delete_group(group)


def _poll_until_assigned(consumer: Consumer) -> None:
    def is_assigned() -> bool:
        consumer.poll(timeout_ms=50)
        return bool(consumer.assignment)

    wait_until(is_assigned, "an assignment")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_removed(group_broker: DrumlinServer, protocol: Any) -> None:
    with Client(group_broker.address) as client:
        topic = group = f"members-removed-{protocol}"
        client.create_topic(topic, 1)
        options: Any = {"session_timeout_ms": 300_000} if protocol == "classic" else {}
        dynamic = client.consumer([topic], group=group, protocol=protocol, **options)
        with dynamic:
            _poll_until_assigned(dynamic)
            with pytest.raises(CommitFailed, match="with 1 member: stop its consumers first"):
                client.reset_offsets(group, "earliest", topics=[topic])
            (member,) = client.describe_group(group).members
            client.remove_members(group, member_ids=[member.member_id])
            assert client.describe_group(group).members == ()
            with pytest.raises(RequestRefused, match=r"(?i)unknown_member_id"):
                client.remove_members(group, member_ids=[member.member_id])
        with client.consumer(
            [topic], group=group, group_instance_id="one", protocol=protocol
        ) as static:
            _poll_until_assigned(static)
        assert len(client.describe_group(group).members) == 1
        client.remove_members(group, instance_ids=["one"])
        assert client.describe_group(group).is_at_rest
        client.remove_members(group)


def test_what_no_share_group_can_be_asked_for(group_broker: DrumlinServer) -> None:
    topic = group = "shared"
    place = TopicPartition(topic, 0)
    said = f"group '{group}' is a share group: "
    with Client(group_broker.address) as client:
        client.create_topic(topic)
        start = {place: OffsetAndMetadata(0)}
        client._run(share_group_admin.alter_start_offsets(client._connections, group, start))
        assert client.describe_group(group).type == "share"
        with pytest.raises(CommitFailed, match=said):
            client.commit_offsets(group, {place: 0})
        with pytest.raises(CommitFailed, match=said):
            client.commit_offsets_async(group, {place: 0}).result(30)
        with pytest.raises(RequestRefused, match=said):
            client.delete_offsets(group, [place])
        with pytest.raises(RequestRefused, match=f"{said}its members"):
            client.remove_members(group, member_ids=["x"])
        assert client.reset_offsets(group, "earliest", topics=[topic]) == {place: 0}
        client.delete_group(group)
