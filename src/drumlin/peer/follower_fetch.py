"""A follower's Fetch: what it asks its leader for, written by packs.

A request may name thousands of partitions, as the first one of a session does, so no object is
made for each. Tests hold the bytes against the schemas. Answers are read by
`wire/by_hand/fetch_response.py`.

    max_wait min_bytes max_bytes isolation session_id session_epoch
    [topic_id [index leader_epoch offset last_fetched_epoch log_start_offset max_bytes]]
    [topic_id [index]]  rack  replica_state
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from drumlin.wire.messages import EncodedBody
from drumlin.wire.uvarint import put_uvarint

#: Before 15 a request does not tell the broker epoch of the replica (KIP-903).
VERSION_MIN: Final = 15
VERSION_MAX: Final = 17

_LIMITS: Final = struct.Struct(">iiibii")
_PARTITION: Final = struct.Struct(">iiqiqix")
_INDEX: Final = struct.Struct(">i")
#: One tagged field, number 1, of 13 bytes, itself without tagged fields.
_REPLICA_STATE: Final = struct.Struct(">bbbiqx")
_REPLICA_STATE_TAG: Final = 1
_REPLICA_STATE_SIZE: Final = 13
_READ_UNCOMMITTED: Final = 0
_NO_RACK: Final = b"\x01"
_NO_TAGS: Final = b"\x00"

#: A topic's id (16 bytes) and a partition of it.
Key = tuple[bytes, int]


class Position(NamedTuple):
    """Where a follower stands in a partition."""

    leader_epoch: int  # of the leader that it follows
    offset: int
    last_fetched_epoch: int  # of the record before `offset`; -1: it has none
    log_start_offset: int


class Limits(NamedTuple):
    """How long the leader may wait for how much, and what it may answer with at most."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


class Replica(NamedTuple):
    """Who asks, and as which of its processes (KIP-903)."""

    node_id: int
    broker_epoch: int


def encode_fetch(
    replica: Replica,
    limits: Limits,
    session: tuple[int, int],
    wanted: Iterable[tuple[Key, Position]],
    forgotten: Iterable[Key],
) -> EncodedBody:
    """The body of the request, for versions 15 to 17.

    Args:
        session: its id and the epoch of this request (KIP-227).
        wanted: the partitions that are new in the session, or have moved.
        forgotten: those that are in the session and shall not be any more.
    """
    wait, min_bytes, max_bytes, partition_max_bytes = limits
    body = bytearray(_LIMITS.pack(wait, min_bytes, max_bytes, _READ_UNCOMMITTED, *session))
    pack = _PARTITION.pack
    topics: dict[bytes, list[bytes]] = {}
    for (topic_id, index), (leader_epoch, offset, last_epoch, log_start) in wanted:
        packed = pack(index, leader_epoch, offset, last_epoch, log_start, partition_max_bytes)
        topics.setdefault(topic_id, []).append(packed)
    _put_topics(body, topics)
    gone: dict[bytes, list[bytes]] = {}
    for topic_id, index in forgotten:
        gone.setdefault(topic_id, []).append(_INDEX.pack(index))
    _put_topics(body, gone)
    body += _NO_RACK
    state = (_REPLICA_STATE_TAG, _REPLICA_STATE_SIZE, *replica)
    body += _REPLICA_STATE.pack(1, *state)
    return EncodedBody(bytes(body))


def _put_topics(body: bytearray, topics: Mapping[bytes, Sequence[bytes]]) -> None:
    put_uvarint(body, len(topics) + 1)
    for topic_id, partitions in topics.items():
        body += topic_id
        put_uvarint(body, len(partitions) + 1)
        body += b"".join(partitions)
        body += _NO_TAGS
