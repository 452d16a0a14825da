"""Commit timestamps of a group, read from `__consumer_offsets`, as no request returns them.

Reads only records since a given time, and only the group's partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.client.errors import ClientError
from drumlin.client.places import Milliseconds
from drumlin.client.topic_partition import TopicPartition
from drumlin.coordination.groups.offsets.offset_records import OffsetKey, decode_offset
from drumlin.coordination.groups.shard.record_registry import decode_key
from drumlin.coordination.internal_records.record_schema import UnreadableRecord
from drumlin.coordination.shards.state_partitions import partition_for

if TYPE_CHECKING:
    from drumlin.client.client import Client
    from drumlin.peer.security.security import Security

_TOPIC: Final = "__consumer_offsets"


class CommitTime(NamedTuple):
    """A committed offset with the coordinator's timestamp."""

    offset: int
    timestamp_ms: int


#: Finds the last commits of a group since a timestamp, by partition; None if unreadable.
FindCommits = Callable[[str, int], Mapping[TopicPartition, CommitTime] | None]


def find_commits(bootstrap: str, security: Security) -> FindCommits:
    """A function that looks up commits on this cluster. Calls are rare, so each connects anew."""

    def find(group: str, since_ms: int) -> Mapping[TopicPartition, CommitTime] | None:
        from drumlin.client.client import connect  # loads Arrow, which is rarely needed

        try:
            with connect(bootstrap, client_id="drumlin-cli", security=security) as client:
                return _last_commits(client, group, since_ms)
        except (ClientError, UnreadableRecord):
            return None

    return find


def _last_commits(client: Client, group: str, since_ms: int) -> dict[TopicPartition, CommitTime]:
    partition = partition_for(group, len(client.partitions(_TOPIC)))
    place = TopicPartition(_TOPIC, partition)
    start = client.list_offsets({place: Milliseconds(max(since_ms, 0))})[place].offset
    if start < 0:
        return {}
    found: dict[TopicPartition, CommitTime] = {}
    batches = client.read_batches(
        _TOPIC, [partition], start=start, columns=["key", "value"], isolation="read_committed"
    )
    for batch in batches:
        keys, values = batch.column("key"), batch.column("value")
        for key_bytes, value in zip(keys, values, strict=True):
            key = decode_key(key_bytes.as_py()) if key_bytes.is_valid else None
            if not isinstance(key, OffsetKey) or key.group_id != group:
                continue
            where = TopicPartition(key.topic, key.partition)
            if not value.is_valid:
                found.pop(where, None)
                continue
            commit = decode_offset(value.as_py())
            if commit.commit_timestamp_ms >= since_ms:
                found[where] = CommitTime(commit.offset, commit.commit_timestamp_ms)
    return found
