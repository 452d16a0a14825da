"""What a client asks to be committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from drumlin.coordination.groups.kind import Committer
from drumlin.coordination.groups.log import Producer


class Position(NamedTuple):
    """One position that a client wants to commit."""

    topic: str
    topic_id: UUID | None
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True)
class Commit:
    """A client's request to commit positions of a group."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    retention_ms: int | None
    """Only of clients of the oldest versions; None: the broker's retention."""
    positions: Sequence[Position]
    version: int = 10
    """Of the request: what older clients may do depends on it."""
    producer: Producer | None = None
    """In whose transaction; None: it counts at once."""

    @property
    def committer(self) -> Committer:
        return Committer(
            self.member_id,
            self.group_instance_id,
            self.generation_id,
            is_transactional=self.producer is not None,
            version=self.version,
        )


def java_length(text: str) -> int:
    """The length as Kafka counts it: in UTF-16 units."""
    return len(text.encode("utf-16-le")) // 2
