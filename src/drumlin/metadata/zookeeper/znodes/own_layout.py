"""Znodes below `/drumlin`, which only brokers of Drumlin use: paths and contents. Pure.

A broker has an *epoch* for each registration: the version of its node below
`/drumlin/broker_epochs`, which is replaced before it registers. Changes of partition states are
announced by a sequential node below `/drumlin/state_news`, in the same transaction. A chroot into
which an embedded store was moved, or is being moved, has `/drumlin/adoption`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from uuid import UUID

from drumlin.metadata.image import NO_LEADER, PartitionId, ReplicaAssignment
from drumlin.metadata.zookeeper.znodes.eligible_json import (
    NOBODY,
    Eligible,
    decode_eligible,
    encode_eligible,
)
from drumlin.storage.directory.partition_metadata import decode_uuid, encode_uuid
from drumlin.zookeeper.nodes import (
    UnreadableNode,
    as_ids,
    as_number,
    as_object,
    as_text,
    encode,
    versioned,
)

BROKER_EPOCHS: Final = "/drumlin/broker_epochs"
STATE_NEWS: Final = "/drumlin/state_news"
STATE_NEWS_PREFIX: Final = f"{STATE_NEWS}/states_"
#: This node exists from the first step of an adoption on, for ever.
ADOPTION: Final = "/drumlin/adoption"

#: This node exists once the administrator was created, who may have been removed since.
ADMINISTRATOR_MADE: Final = "/drumlin/administrator_made"
PERSISTENT: Final = (BROKER_EPOCHS, STATE_NEWS)
#: The session in the epoch node of an unregistered broker.
NO_SESSION: Final = 0
#: Valid numbers of fields: basic, with the replica assignment, with eligible leader replicas.
_FIELDS: Final = (5, 8, 9)


class ChangedState(NamedTuple):
    """The new state of a partition in a notification."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    #: None if unchanged, in a notification of an older version of Drumlin.
    assignment: ReplicaAssignment | None = None
    eligible: Eligible = NOBODY


class AdoptionNode(NamedTuple):
    """The progress of adopting a broker's embedded store.

    fingerprint: the fingerprint of the store's contents.
    began_empty: whether the chroot was empty before, so that everything in it comes from the
        adoption.
    is_complete: whether brokers may start; until then they refuse.
    """

    node_id: int
    fingerprint: str
    began_empty: bool
    is_complete: bool = False


def broker_epoch_path(node_id: int) -> str:
    return f"{BROKER_EPOCHS}/{node_id}"


def encode_broker_epoch(session_id: int) -> bytes:
    """The content of a broker's epoch node: its session, by which others recognize a broker of
    Drumlin.
    """
    return encode({"version": 1, "session": f"{session_id:x}"})


def is_unregistered(path: str, data: bytes) -> bool:
    """Whether the broker was unregistered."""
    return decode_broker_epoch(path, data) == NO_SESSION


def decode_broker_epoch(path: str, data: bytes) -> int:
    """The session in which the broker is registered or about to register."""
    text = versioned(path, data, (1,)).get("session")
    try:
        return int(str(text), 16)
    except ValueError:
        raise UnreadableNode(path, f"{text!r} is no session") from None


def encode_state_news(changed: Iterable[tuple[PartitionId, ChangedState]]) -> bytes:
    topics: dict[str, list[Any]] = {}
    for (topic_id, partition), state in changed:
        fields = [partition, state.leader, state.leader_epoch, state.partition_epoch, state.isr]
        fields += state.assignment or ()
        if state.assignment is not None and state.eligible != NOBODY:
            fields.append(encode_eligible(state.eligible))
        topics.setdefault(encode_uuid(topic_id), []).append(fields)
    return encode({"version": 1, "topics": topics})


def decode_state_news(path: str, data: bytes) -> dict[PartitionId, ChangedState]:
    found: dict[PartitionId, ChangedState] = {}
    topics = as_object(path, versioned(path, data, (1,)).get("topics"), "topics")
    for name, states in topics.items():
        try:
            topic_id: UUID = decode_uuid(name)
        except ValueError:
            raise UnreadableNode(path, f"{name!r} is no topic id") from None
        if not isinstance(states, list):
            raise UnreadableNode(path, f"the states of {name} are not a list")
        for fields in states:
            index, state = _changed_state(path, fields)
            found[PartitionId(topic_id, index)] = state
    return found


def _changed_state(path: str, fields: Any) -> tuple[int, ChangedState]:
    if not isinstance(fields, list) or len(fields) not in _FIELDS:
        raise UnreadableNode(path, "a state does not have five fields, eight or nine")
    index = as_number(path, fields[0], "a partition", 0)
    leader = as_number(path, fields[1], "a leader", NO_LEADER)
    leader_epoch = as_number(path, fields[2], "a leader epoch", 0)
    partition_epoch = as_number(path, fields[3], "a partition epoch", 0)
    isr, *moved = (as_ids(path, each) for each in fields[4:8])
    assignment = ReplicaAssignment(*moved) if moved else None
    eligible = decode_eligible(path, fields[8]) if len(fields) > 8 else NOBODY
    return index, ChangedState(leader, leader_epoch, isr, partition_epoch, assignment, eligible)


def encode_adoption(adoption: AdoptionNode) -> bytes:
    return encode({"version": 1, **adoption._asdict()})


def decode_adoption(data: bytes) -> AdoptionNode:
    fields = versioned(ADOPTION, data, (1,))
    return AdoptionNode(
        as_number(ADOPTION, fields.get("node_id"), "node_id", 0),
        as_text(ADOPTION, fields.get("fingerprint"), "fingerprint"),
        fields.get("began_empty") is True,
        fields.get("is_complete") is True,
    )
