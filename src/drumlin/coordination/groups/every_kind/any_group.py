"""What the coordinator asks of a group whatever its kind, and what a group has it do.

What only one kind does (joining, heartbeats) is asked of that kind's own class. Effects are plain
values, carried out in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from drumlin.coordination.groups.every_kind.committer import Committer, OffsetCheck
from drumlin.coordination.groups.every_kind.group_record import GroupRecord, RecordKey
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.every_kind.messages import Answer, Answers, Store
from drumlin.coordination.groups.every_kind.target_epoch import TargetEpoch
from drumlin.wire.error_codes import ErrorCode


class AnyGroup(Protocol):
    """A group of any kind."""

    @property
    def group_id(self) -> str: ...
    @property
    def kind(self) -> GroupKind: ...
    @property
    def protocol_type(self) -> str | None:
        """The protocol type in ListGroups, mostly "consumer"."""

    @property
    def state_name(self) -> str:
        """Kafka's name of the state, as clients see it."""

    @property
    def is_deletable(self) -> bool:
        """Whether the group may be deleted once it has no offsets left."""

    # -- offsets ---------------------------------------------------------------------------

    def check_offset_commit(self, committer: Committer) -> OffsetCheck | None:
        """A check for each partition, if whether it may commit depends on that.

        Raises:
            KafkaError: it may not commit.
        """

    def note_commit(self, committer: Committer) -> None:
        """Offsets are committed, after the check: where that counts as a heartbeat, it is one."""

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
        """Whether a member reads the topic; True if that is unknown."""

    def retention_starts_ms(self, commit_timestamp_ms: int) -> int | None:
        """When the retention time of an offset begins; None while it may not expire."""

    # -- life ------------------------------------------------------------------------------

    def check_delete(self) -> None:
        """
        Raises:
            KafkaError: NON_EMPTY_GROUP.
        """

    def tombstones(self) -> list[GroupRecord]:
        """The records that delete the group; its offsets are not among them."""

    async def restore(self, records: Iterable[tuple[RecordKey, Any]]) -> None:
        """Become what the log says: the group's own records, in the order of their writing.

        Others may have their turn wherever this yields; no request comes before the end.
        What follows from them is left to a deadline, which may be due at once.
        """

    def replay(self, key: RecordKey, value: Any | None) -> None:
        """Take over a record that is in the log now."""

    def unload(self, error: ErrorCode = ErrorCode.not_coordinator) -> Sequence[Effect]:
        """The group has moved to another broker, or was deleted: answer all requests that wait."""

    async def dissolve(self) -> list[Any]:
        """After `unload`: forget deadlines that would mean another group of that name.

        Returns what is large in it, part by part. No request reaches the group any more.
        """


class Decision(NamedTuple):
    """What a group has decided, before anything of it has happened.

    To do: write the records as one batch and take them over; then answer, once all in-sync replicas
    have them. If they cannot be written, all stays as it is.

    answer: to the request that has led to it, if it was one.
    then: what else is to be done with the group as it is afterwards; it may be of another kind.
    otherwise: what is decided instead if one batch does not take the records.
    assign: what takes longer; the answer comes after it.
    """

    records: Sequence[GroupRecord] = ()
    answer: Any = None
    then: Callable[[AnyGroup], Sequence[Effect]] | None = None
    otherwise: Callable[[], Decision] | None = None
    assign: Assign | None = None


class Assign(NamedTuple):
    """A target assignment of very many members, computed and written while the group goes on.

    make(): computes it from copies: its `epoch`, and the `records` of what is new in it.
    complete(group, target): the records that end it and correct it for the members of now, and
        what the group's own `follow` takes over of all of them.
    follow(group, answer): what the same request leads to once the assignment is complete, given its
        first answer.
    """

    make: Callable[[], Coroutine[Any, Any, NextTarget]]
    complete: Callable[[Any, Any], tuple[Sequence[GroupRecord], Any]]
    follow: Callable[[Any, Any], Decision]


class NextTarget(Protocol):
    """A target assignment of a consumer group or a share group that is yet to be written."""

    @property
    def epoch(self) -> TargetEpoch: ...
    @property
    def records(self) -> Sequence[GroupRecord]:
        """What is new in it; without those that complete it."""


class Resolve(NamedTuple):
    """To do: find the topics that regular expressions match; they go to `resolved`."""

    regexes: frozenset[str]


Effect = Answer | Answers | Store | Decision | Resolve
