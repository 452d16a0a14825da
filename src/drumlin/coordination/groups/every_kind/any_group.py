"""The interface of all kinds of groups to the coordinator, and the effects that groups return.

Methods of a single kind (joining, heartbeats) are in the class of that kind. Effects are plain
values; the coordinator carries them out in order.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from drumlin.coordination.groups.every_kind.committer import Committer, OffsetCheck
from drumlin.coordination.groups.every_kind.group_record import GroupRecord, RecordKey
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.every_kind.messages import Answer, Answers, Protocols, Sees, Store
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
        """The protocol type in ListGroups, usually "consumer"."""

    @property
    def state_name(self) -> str:
        """Kafka's name of the state, as clients see it."""

    @property
    def is_deletable(self) -> bool:
        """Whether the group may be deleted once it has no offsets left."""

    # -- offsets ---------------------------------------------------------------------------

    def check_offset_commit(self, committer: Committer) -> OffsetCheck | None:
        """Check a commit; returns a check for each partition if one is necessary.

        Raises:
            KafkaError: the committer may not commit.
        """

    def note_commit(self, committer: Committer) -> None:
        """Handle a commit that passed the check. Some kinds of groups count it as a heartbeat."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """
        Raises:
            KafkaError: there is no such member, or it has another epoch.
        """

    def check_offset_delete(self) -> None:
        """
        Raises:
            KafkaError: NON_EMPTY_GROUP.
        """

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic; True if that is unknown."""

    def retention_starts_ms(self, commit_timestamp_ms: int) -> int | None:
        """The start of an offset's retention time; None while the offset may not expire."""

    # -- life ------------------------------------------------------------------------------

    def check_delete(self) -> None:
        """
        Raises:
            KafkaError: NON_EMPTY_GROUP.
        """

    def tombstones(self) -> list[GroupRecord]:
        """The tombstones that delete the group; those of its offsets are not included."""

    async def restore(self, records: Iterable[tuple[RecordKey, Any]]) -> None:
        """Restore the group's state from its records, in the order in which they were written.

        Yields to the event loop in between; the group gets no request before the end. If the state
        requires an action, a deadline triggers it, perhaps immediately.
        """

    def replay(self, key: RecordKey, value: Any | None) -> None:
        """Apply a record that has been appended to the log."""

    def unload(self, error: ErrorCode = ErrorCode.not_coordinator) -> Sequence[Effect]:
        """Answer all waiting requests: the group has moved to another broker, or was deleted."""

    async def dissolve(self) -> list[Any]:
        """Remove deadlines after `unload`: otherwise they would apply to a new group of the same
        name.

        Returns the group's large collections, which the caller frees one by one. The group gets no
        more requests.
        """


class Decision(NamedTuple):
    """A group's decision that has not been carried out yet.

    The records are written as one batch and applied; the answer is given once all in-sync replicas
    have the batch. If writing fails, nothing changes.

    answer: the answer to the request that led to the decision, if there was one.
    then: returns further effects for the changed group, which may be of another kind.
    otherwise: returns another decision, for records that do not fit into one batch.
    assign: a long computation, which the answer awaits.
    convert: the conversion of a group of many members, in place of `records`.
    """

    records: Sequence[GroupRecord] = ()
    answer: Any = None
    then: Callable[[AnyGroup], Sequence[Effect]] | None = None
    otherwise: Callable[[], Decision] | None = None
    assign: Assign | None = None
    convert: Convert | None = None


class DecideAgain(Protocol):
    """Decides again on the same request; without `in_turns`, the decision has no `Convert`."""

    def __call__(self, *, in_turns: bool) -> Decision: ...


class Convert(NamedTuple):
    """The conversion of a consumer group of many members into a classic one, over several turns.

    make(): the record of the classic group, and all protocols of each member; None if the group
        cannot become a classic one.
    decide(in_turns=...): decides again, after `make` returned None or the group has changed.
    reason: the reason for the rebalance of the classic group; None if there is no rebalance.
    """

    make: Callable[[], Coroutine[Any, Any, tuple[GroupRecord, Mapping[str, Protocols]] | None]]
    decide: DecideAgain
    reason: str | None


class Assign(NamedTuple):
    """The computation of a target assignment of very many members, while the group continues.

    make(): computes the target from copies of the group's state. The target has an `epoch`, and
        the `records` of the changes from the previous target.
    complete(group, target): returns the last records, which correct the target for the current
        members, and the value from which the group's own `follow` applies all records.
    follow(group, answer): returns the decision on the same request when the assignment is complete,
        given the request's first answer.
    """

    make: Callable[[], Coroutine[Any, Any, NextTarget]]
    complete: Callable[[Any, Any], tuple[Sequence[GroupRecord], Any]]
    follow: Callable[[Any, Any], Decision]


class NextTarget(Protocol):
    """A target assignment of a consumer group or share group, not written yet."""

    @property
    def epoch(self) -> TargetEpoch: ...
    @property
    def records(self) -> Sequence[GroupRecord]:
        """The records of the changed targets, without the last records."""


class Resolve(NamedTuple):
    """Find the topics that regular expressions match, and pass them to `resolved`."""

    regexes: frozenset[str]
    sees: Sees = None


Effect = Answer | Answers | Store | Decision | Resolve
