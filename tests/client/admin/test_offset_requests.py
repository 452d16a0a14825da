"""Requests for committed offsets: in every version that a broker may choose."""

from __future__ import annotations

from typing import Any

import pytest

from drumlin.client.admin import committed_offsets
from drumlin.client.admin.committed_offsets import NAMES_UP_TO, GroupMetadata, OffsetAndMetadata
from drumlin.client.topic_partition import TopicPartition
from drumlin.wire.messages import encode_request, parse_request, parse_request_header
from drumlin.wire.schema.declaration import Message

_PLACE = TopicPartition("t", 3)
_GROUP = GroupMetadata("g", 5, "m")


def sent(api: str, version: int, message: Message) -> Any:
    """The request as its broker reads it."""
    frame = b"".join(encode_request(api, version, 1, "c", message))[4:]
    return parse_request(api, version, frame, parse_request_header(frame).size)


@pytest.mark.parametrize("version", range(2, NAMES_UP_TO + 1))
def test_offsets_are_committed(version: int) -> None:
    offsets = {_PLACE: OffsetAndMetadata(7, "note", 2)}
    request = sent("offset_commit", version, committed_offsets.commit_request(_GROUP, offsets))
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (request.group_id, request.member_id, topic.name) == ("g", "m", "t")
    assert (partition.partition_index, partition.committed_offset) == (3, 7)
    assert partition.committed_leader_epoch == (2 if version >= 6 else -1)
    # The broker decides how long it keeps them.
    assert request.retention_time.total_seconds() == -0.001


@pytest.mark.parametrize("places", [None, [_PLACE]])
@pytest.mark.parametrize("version", range(2, NAMES_UP_TO + 1))
def test_offsets_are_asked_for(version: int, places: list[TopicPartition] | None) -> None:
    request = sent("offset_fetch", version, committed_offsets.fetch_request(_GROUP, places))
    asked = request if request.groups is None else request.groups[0]
    assert asked.group_id == "g"
    if places is None:
        assert asked.topics is None
    else:
        assert [(each.name, each.partition_indexes) for each in asked.topics] == [("t", (3,))]
