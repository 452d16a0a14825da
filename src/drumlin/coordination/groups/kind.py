"""The kinds of groups, and what the coordinator asks of a group whatever its kind.

What only one kind does (joining, heartbeats) is asked of that kind's own class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import UUID

from drumlin.turns import Work
from drumlin.wire.errors import ErrorCode

if TYPE_CHECKING:
    from drumlin.coordination.groups.classic.states import Deadline
    from drumlin.coordination.groups.effects import Effect
    from drumlin.coordination.groups.record_type import GroupRecord, RecordKey


class GroupKind(Enum):
    """The values are Kafka's names, as clients see them."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"


#: Topic id and partition; NONE if the position may be committed.
PositionCheck = Callable[[UUID | None, int], ErrorCode]


class Committer(NamedTuple):
    """Who commits offsets, or fetches them: a member, or somebody without membership."""

    member_id: str
    group_instance_id: str | None
    generation_id: int
    """Of a classic group; in other groups it is the member's epoch. Negative: no member."""
    is_transactional: bool = False
    version: int = 10
    """Of the OffsetCommit; of TxnOffsetCommit it does not matter."""


class AnyGroup(Protocol):
    """A group of any kind."""

    @property
    def group_id(self) -> str: ...
    @property
    def kind(self) -> GroupKind: ...
    @property
    def protocol_type(self) -> str | None:
        """What ListGroups calls so: "consumer" mostly."""

    @property
    def state_name(self) -> str:
        """Kafka's name of the state, as clients see it."""

    @property
    def is_deletable(self) -> bool:
        """Whether the group may go as soon as no offsets are left in it."""

    # -- offsets ---------------------------------------------------------------------------

    def check_offset_commit(self, committer: Committer) -> PositionCheck | None:
        """A check of each position, if it depends on the partition whether it may be committed.

        Raises:
            KafkaError: it may not commit.
        """

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """
        Raises:
            KafkaError: it may not fetch, as a member that it is not (any more).
        """

    def check_offset_delete(self) -> None:
        """
        Raises:
            KafkaError: NON_EMPTY_GROUP.
        """

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic; if that cannot be known, yes."""

    def retention_starts_ms(self, commit_timestamp_ms: int) -> int | None:
        """From when the retention of an offset counts; None while it may not expire."""

    # -- life ------------------------------------------------------------------------------

    def check_delete(self) -> None:
        """
        Raises:
            KafkaError: NON_EMPTY_GROUP.
        """

    def tombstones(self) -> list[GroupRecord]:
        """What is written to delete the group; of its offsets, nothing."""

    def restore(self, records: Iterable[tuple[RecordKey, Any]]) -> Work[None]:
        """Become what the log says: the group's own records, in the order of their writing.

        Others may have their turn wherever this yields; nobody asks the group before the end.
        What is to be done then waits for a deadline, which may be now.
        """

    def replay(self, key: RecordKey, value: Any | None) -> None:
        """Take over a record that is in the log now."""

    def expire(self, deadline: Deadline) -> Sequence[Effect]:
        """A deadline of this group has come."""

    def unload(self, error: ErrorCode = ErrorCode.not_coordinator) -> Sequence[Effect]:
        """The group has moved to another broker, or is no more: nobody is left waiting."""

    def dissolve(self) -> Work[list[Any]]:
        """After `unload`: forget deadlines that would mean another group of that name.

        Returns what is large in it, part by part. Nobody asks the group any more.
        """
