"""Tagged fields that name a partition's leader to a client that asked another broker (KIP-951).

Produce (from version 10) and Fetch (from version 16) name the leader with the partition, and the
leader's address once in the response, so that the client need not request metadata first.

    partition:  leader_id leader_epoch
    response:   [node_id host port rack]
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from drumlin.wire.schema.encoder import put_cut_compact_string
from drumlin.wire.uvarint import put_uvarint, uvarint

#: The number of the field is 0 in Produce responses, 1 in Fetch responses.
_LEADER: Final = struct.Struct(">iix")
_ENDPOINTS_TAG: Final = 0
_INT32: Final = struct.Struct(">i")


class CurrentLeader(NamedTuple):
    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """The address of a broker for clients of a listener."""

    node_id: int
    host: str
    port: int
    rack: str | None


def leader_tag(tag: int, leader: CurrentLeader) -> bytes:
    """The tagged fields of a partition: only the leader."""
    return bytes((1, tag, _LEADER.size)) + _LEADER.pack(*leader)


def endpoints_tag(endpoints: Iterable[NodeEndpoint]) -> bytes:
    """The tagged fields of a response: only the endpoints, if there are any."""
    known = list(endpoints)
    if not known:
        return b"\0"
    body = bytearray()
    put_uvarint(body, len(known) + 1)
    for each in known:
        body += _INT32.pack(each.node_id)
        put_cut_compact_string(body, each.host)
        body += _INT32.pack(each.port)
        put_cut_compact_string(body, each.rack)
        body += b"\0"
    return bytes((1, _ENDPOINTS_TAG)) + uvarint(len(body)) + bytes(body)
