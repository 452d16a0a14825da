"""Inputs and outputs of the group state machine. Plain values.

They have the content of Kafka's requests and responses, independent of versions; the broker's
handlers translate. A `waiter` is an object of the caller that is returned with the answer: in the
broker a future, in a test a label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from drumlin.wire.error_codes import ErrorCode

NO_GENERATION = -1
NO_MEMBER_ID = ""
NO_LEADER = ""

Protocols = tuple[tuple[str, bytes], ...]
"""Name and metadata of each protocol that a member supports, the preferred one first."""

Sees: TypeAlias = "Callable[[str], bool] | None"
"""Returns whether a member may see a topic now; None if no rights are checked. Called only on the
event loop.
"""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A member's request to join the next generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_known_member_id: bool = True
    """KIP-394: a new dynamic member first gets an id, and then joins with that id."""
    can_skip_assignment: bool = True
    """KIP-814: a static leader that comes back need not compute the assignment again."""
    reason: str | None = None
    sees: Sees = None


class JoinedMember(NamedTuple):
    """A member in the leader's answer."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = NO_LEADER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """A member's request for its assignment; the leader's request has all assignments."""

    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Iterable[tuple[str, bytes]]
    """Assignments by member id. Read once, and only in the leader's request."""


class SyncAnswer(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeavingMember(NamedTuple):
    """A member that leaves, identified by member id, or (a static member) by instance id alone."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class Answer(NamedTuple):
    """Answer a request."""

    waiter: Any
    answer: JoinAnswer | SyncAnswer


class Answers(NamedTuple):
    """Answer many requests; if there are very many, over several turns.

    The answers are final, and nothing else answers the requests, so all answers must be given. A
    None among the answers marks a point at which to yield to the event loop.
    """

    number: int
    answers: Iterator[Answer | None]


@dataclass(frozen=True, slots=True)
class Created:
    """The group is new; if its record cannot be written, it does not exist."""


@dataclass(frozen=True, slots=True)
class Emptied:
    """The last member has left. The group continues; a failed write is tried again."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The leader's assignment takes effect for the generation once it is stored."""

    generation_id: int
    asked: Iterable[tuple[str, bytes]]
    assignments: dict[str, bytes] = field(default_factory=dict)
    """Assignments of the group's members, filled in while the record is created."""


@dataclass(frozen=True, slots=True)
class StaticMemberReplaced:
    """A static member came back under a new id; the generation stays the same."""

    former_id: str
    new_member_id: str
    can_skip_assignment: bool


Purpose = Created | Emptied | Assigned | StaticMemberReplaced


@dataclass(frozen=True, slots=True)
class Store:
    """Write the record of `Group.to_store`, then call `Group.stored`.

    Other requests may run before the write. If `Group.awaits` returns False by then, the write is
    no longer needed.
    """

    purpose: Purpose


Effect = Answer | Answers | Store
