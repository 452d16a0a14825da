"""Groups as a client lists, describes and deletes them, without being a member.

Drumlin and Apache Kafka are to do the same.
"""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from drumlin.client.client import Client
from drumlin.client.errors import CommitFailed, RequestRefused
from drumlin.wire.error_codes import ErrorCode
from rig.waiting import wait_until


@pytest.fixture
def group(client: Client, topic: str) -> str:
    """A group that has committed, and has no members."""
    name = f"outside-{uuid.uuid4().hex[:12]}"
    client.commit_offsets(name, {(topic, 0): 3, (topic, 1): 5})
    return name


def listed(client: Client, **wanted: list[str]) -> dict[str, tuple[str | None, str | None]]:
    return {each.group: (each.state, each.type) for each in client.list_groups(**wanted)}


def test_a_group_from_its_first_commit_to_its_end(client: Client, topic: str, group: str) -> None:
    found = client.committed_offsets(group)
    assert {place: each.offset for place, each in found.items()} == {(topic, 0): 3, (topic, 1): 5}
    assert listed(client)[group] == ("Empty", "classic")
    assert client.describe_group(group).is_at_rest

    client.delete_offsets(group, [(topic, 0)])
    assert list(client.committed_offsets(group)) == [(topic, 1)]
    client.delete_group(group)
    assert group not in listed(client)
    assert client.committed_offsets(group) == {}
    assert client.describe_group(group).state == "Dead"
    with pytest.raises(RequestRefused, match=group) as refused:
        client.delete_group(group)
    assert refused.value.code is ErrorCode.group_id_not_found


def test_commits_wait_or_do_not(client: Client, topic: str, group: str) -> None:
    committing = client.commit_offsets_async(group, {(topic, 0): 9})
    assert committing.result(20) is None
    assert client.committed_offsets(group)[topic, 0].offset == 9
    with pytest.raises(CommitFailed, match=f"group '{group}', topic 'no-such-.*0: unknown_topic"):
        client.commit_offsets(group, {("no-such-topic", 0): 1})
    with pytest.raises(CommitFailed):
        client.commit_offsets_async(group, {("no-such-topic", 0): 1}).result(20)


def test_a_group_with_members(client: Client, topic: str) -> None:
    name = f"inside-{uuid.uuid4().hex[:12]}"
    client.append(pa.table({"value": ["a"]}), topic)
    with client.consumer(topic, group=name, commit_interval_ms=None) as consumer:
        wait_until(lambda: consumer.poll(timeout_ms=500) is not None, "a record")
        assert listed(client, states=["Stable"], types=["classic"])[name] == ("Stable", "classic")
        assert name not in listed(client, states=["empty"])
        assert name not in listed(client, types=["share", "consumer"])
        consumer.commit()
        with pytest.raises(RequestRefused) as refused:
            client.delete_group(name)
        assert refused.value.code is ErrorCode.non_empty_group
        with pytest.raises(RequestRefused) as refused:
            client.delete_offsets(name, [(topic, partition) for partition in range(3)])
        assert refused.value.code is ErrorCode.group_subscribed_to_topic
        with pytest.raises(CommitFailed):
            client.commit_offsets(name, {(topic, 0): 1})
    client.delete_group(name)


def test_what_cannot_be_listed(client: Client) -> None:
    with pytest.raises(ValueError, match="states 'Asleep': expected some of 'Empty', 'Stable'"):
        client.list_groups(states=["Asleep"])
    with pytest.raises(ValueError, match="types 'herd': expected some of 'classic'"):
        client.list_groups(types=["herd"])
    with pytest.raises(TypeError, match="states 'Empty': expected a list of strings"):
        client.list_groups(states="Empty")
    with pytest.raises(TypeError, match="group 5: expected a string"):
        client.delete_group(5)  # type: ignore[arg-type]
