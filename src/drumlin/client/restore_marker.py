"""What a restore was asked for, and the marker that says that it was completed.

The marker is what a consumer group has committed, in the transaction of the restored records: for
each partition of the source the offset up to which it was read, and as metadata the request and
the id of the topic that was written. So it can be there only as a whole, with all records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from drumlin.client import arguments
from drumlin.client.committed_offsets import OffsetAndMetadata
from drumlin.client.offsets import TopicPartition, timestamp_of
from drumlin.client.snapshot_ranges import Point, check_point

_PREFIX: Final = "drumlin-restore-"


def name_for(target: str) -> str:
    """The transactional id of a restore into this topic, and the group that has its marker."""
    return _PREFIX + target


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """What is to be restored: a state, or with `records` or `first` the records themselves."""

    source: str
    at: Point | None = None
    records: bool = False
    first: int | None = None

    def check(self) -> None:
        """
        Raises:
            TypeError, ValueError: a field that cannot have this value.
        """
        arguments.text("topic", self.source)
        check_point(self.at)
        if self.first is not None:
            arguments.whole_number("first", self.first, 1, 2**63 - 1)

    @property
    def is_of_records(self) -> bool:
        return self.records or self.first is not None

    def described(self) -> dict[str, Any]:
        """The request as a marker has it, without the source."""
        at: object = self.at
        if isinstance(at, Mapping):
            at = "offsets"  # those that are committed
        elif isinstance(at, datetime):
            at = timestamp_of(at)
        what = "records" if self.is_of_records else "state"
        return {"what": what, "at": at, "first": self.first}


class Marker(NamedTuple):
    """What a completed restore has left."""

    source: str
    end_offsets: dict[int, int]
    request: dict[str, Any]

    def is_of(self, request: RestoreRequest) -> bool:
        """Whether the same was asked for."""
        if (self.source, self.request) != (request.source, request.described()):
            return False
        return not isinstance(request.at, Mapping) or self.end_offsets == request.at

    def __str__(self) -> str:
        what = self.request["what"]
        if self.request["first"] is not None:
            what = f"first {self.request['first']} records of each partition"
        at = self.request["at"]
        when = "" if at is None else f" at {at}" if isinstance(at, int) else ", up to offsets"
        return f"{what} of topic {self.source!r}{when}"


def marked(
    request: RestoreRequest, end_offsets: Mapping[int, int], topic_id: str | None
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets to commit when a restore is complete."""
    metadata = json.dumps(request.described() | {"to": topic_id})
    return {
        (request.source, partition): OffsetAndMetadata(offset, metadata)
        for partition, offset in end_offsets.items()
    }


def marker_in(
    committed: Mapping[TopicPartition, OffsetAndMetadata], topic_id: str | None
) -> Marker | None:
    """The marker of a restore into the topic with this id, among the offsets of its group.

    An earlier topic of the same name may have left one: that says nothing about this topic.
    """
    marker: Marker | None = None
    for (source, partition), each in committed.items():
        try:
            request = json.loads(each.metadata)
            is_ours = request.pop("to") == topic_id
        except (ValueError, AttributeError, KeyError):
            continue
        if is_ours:
            marker = marker or Marker(source, {}, request)
            marker.end_offsets[partition] = each.offset
    return marker
