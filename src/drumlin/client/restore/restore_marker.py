"""The request of a restore, and the marker of its completion.

The marker is the committed offsets of a consumer group, in the transaction of the restored records:
for each source partition the end offset of reading, with the request and the id of the target topic
as metadata. So it exists only as a whole, together with all records.

A restore of many transactions also commits a marker "begun" before it writes. A restore that finds
such a marker must continue with the same request and offsets, or leave the topic alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from drumlin.client import arguments
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.places import Point, check_point, is_time, last_ms
from drumlin.client.topic_partition import TopicPartition

_PREFIX: Final = "drumlin-restore-"
#: The field with the topic id, in a complete and in a begun marker.
_COMPLETE: Final = "to"
_BEGUN: Final = "begun"


def name_for(target: str) -> str:
    """The transactional id of a restore into this topic, and the group of its marker."""
    return _PREFIX + target


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """A request to restore a state, or with `records` or `first` the records themselves."""

    source: str
    at: Point | None = None
    records: bool = False
    first: int | None = None

    def check(self) -> None:
        """Check the fields.

        Raises:
            TypeError, ValueError: a field is invalid.
        """
        arguments.text("topic", self.source)
        check_point("at", self.at)
        if self.first is not None:
            arguments.whole_number("first", self.first, 1, 2**63 - 1)

    @property
    def is_of_records(self) -> bool:
        return self.records or self.first is not None

    def described(self) -> dict[str, Any]:
        """The request as in a marker, without the source."""
        at: object = self.at
        if isinstance(at, Mapping):
            at = "offsets"  # the committed offsets
        elif is_time(at):
            at = last_ms(at)
        what = "records" if self.is_of_records else "state"
        return {"what": what, "at": at, "first": self.first}


class Marker(NamedTuple):
    """The marker of a restore, for all of its partitions."""

    source: str
    end_offsets: dict[int, int]
    asked_offsets: dict[int, int]
    """The offsets in the request, if any: with `first`, partitions may end before them."""
    request: dict[str, Any]
    is_complete: bool = True

    def is_of(self, request: RestoreRequest) -> bool:
        """Whether the marker is of the same request."""
        if (self.source, self.request) != (request.source, request.described()):
            return False
        return not isinstance(request.at, Mapping) or self.asked_offsets == request.at

    def __str__(self) -> str:
        what = self.request["what"]
        if self.request["first"] is not None:
            what = f"first {self.request['first']} records of each partition"
        at = self.request["at"]
        when = "" if at is None else f" at {at}" if isinstance(at, int) else ", up to offsets"
        return f"{what} of topic {self.source!r}{when}"


def marked(
    request: RestoreRequest,
    end_offsets: Mapping[int, int],
    topic_id: str | None,
    *,
    is_complete: bool = True,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets to commit as the marker of a restore that is complete, or has begun."""
    described = request.described() | {_COMPLETE if is_complete else _BEGUN: topic_id}
    asked = request.at if isinstance(request.at, Mapping) else {}
    found = {}
    for partition, offset in end_offsets.items():
        more = {"asked": asked[partition]} if asked.get(partition, offset) != offset else {}
        metadata = json.dumps(described | more)
        found[TopicPartition(request.source, partition)] = OffsetAndMetadata(offset, metadata)
    return found


def marker_in(
    committed: Mapping[TopicPartition, OffsetAndMetadata], topic_id: str | None
) -> Marker | None:
    """The marker of a restore into the topic with this id, among the offsets of its group.

    A marker of an earlier topic with the same name is ignored.
    """
    marker: Marker | None = None
    for (source, partition), each in committed.items():
        try:
            request = json.loads(each.metadata)
            is_complete = _COMPLETE in request
            is_ours = request.pop(_COMPLETE if is_complete else _BEGUN) == topic_id
        except (ValueError, AttributeError, KeyError, TypeError):
            continue
        if is_ours:
            asked = request.pop("asked", each.offset)
            marker = marker or Marker(source, {}, {}, request, is_complete)
            marker.end_offsets[partition] = each.offset
            marker.asked_offsets[partition] = asked
    return marker
