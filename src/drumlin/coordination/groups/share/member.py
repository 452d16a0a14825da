"""One member of a share group. Makes no decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from drumlin.coordination.groups.share.messages import JOIN_EPOCH, ShareHeartbeat
from drumlin.coordination.groups.share.records import ShareCurrent, ShareMemberMetadata


@dataclass(slots=True)
class Member:
    metadata: ShareMemberMetadata
    current: ShareCurrent = field(default_factory=lambda: ShareCurrent(JOIN_EPOCH, -1))


NEW_METADATA: Final = ShareMemberMetadata(None, "", "", ())


def updated(before: ShareMemberMetadata, request: ShareHeartbeat) -> ShareMemberMetadata:
    """The member's metadata after a heartbeat."""
    topics = before.topics if request.topics is None else tuple(sorted(set(request.topics)))
    rack_id = before.rack_id if request.rack_id is None else request.rack_id
    return ShareMemberMetadata(rack_id, request.client_id, request.client_host, topics)
