"""Eligible leader replicas as JSON, for the nodes of states and their notifications. Pure."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from drumlin.metadata.image import NO_LEADER, LastKnown, LogEnd, PartitionState
from drumlin.zookeeper.nodes import UnreadableNode, as_ids, as_number


class Eligible(NamedTuple):
    """See the fields of the same names in `PartitionState`."""

    elr: tuple[int, ...] = ()
    last_known: tuple[LastKnown, ...] = ()
    last_leader: int = NO_LEADER


NOBODY: Final = Eligible()


def eligible_of(state: PartitionState) -> Eligible:
    return Eligible(state.elr, state.last_known, state.last_leader)


def encode_eligible(eligible: Eligible) -> list[Any]:
    known = [[node_id, *end, int(complete)] for node_id, end, complete in eligible.last_known]
    return [list(eligible.elr), known, eligible.last_leader]


def decode_eligible(path: str, fields: Any) -> Eligible:
    if not isinstance(fields, list) or len(fields) != 3 or not isinstance(fields[1], list):
        raise UnreadableNode(path, "what it says of eligible replicas is not a list of three")
    elr, known, last_leader = fields
    return Eligible(
        as_ids(path, elr),
        tuple(_last_known(path, each) for each in known),
        as_number(path, last_leader, "the last leader", NO_LEADER),
    )


def _last_known(path: str, fields: Any) -> LastKnown:
    if not isinstance(fields, list) or len(fields) != 4:
        raise UnreadableNode(path, f"{fields!r} is not what is known of a replica")
    node_id = as_number(path, fields[0], "a broker", 0)
    leader_epoch = as_number(path, fields[1], "a leader epoch", -1)
    end_offset = fields[2]
    if not isinstance(end_offset, int) or isinstance(end_offset, bool) or end_offset < -1:
        raise UnreadableNode(path, f"{end_offset!r} is no log end offset")
    return LastKnown(node_id, LogEnd(leader_epoch, end_offset), bool(fields[3]))
