"""Encoding of a follower's Fetch request, by hand for speed.

The first request of a session may name thousands of partitions, so no object is created for each.
Tests compare the bytes with those of the schemas. Responses are read by
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

#: Before version 15 a request has no broker epoch of the replica (KIP-903).
VERSION_MIN: Final = 15
VERSION_MAX: Final = 17

_LIMITS: Final = struct.Struct(">iiibii")
_PARTITION: Final = struct.Struct(">iiqiqix")
_INDEX: Final = struct.Struct(">i")
#: One tagged field: number 1, 13 bytes, itself without tagged fields.
_REPLICA_STATE: Final = struct.Struct(">bbbiqx")
_REPLICA_STATE_TAG: Final = 1
_REPLICA_STATE_SIZE: Final = 13
_READ_UNCOMMITTED: Final = 0
_NO_RACK: Final = b"\x01"
_NO_TAGS: Final = b"\x00"

#: A topic's id (16 bytes) and the index of a partition.
Key = tuple[bytes, int]


class Position(NamedTuple):
    """A follower's position in a partition."""

    leader_epoch: int  # the epoch in which it follows
    offset: int
    last_fetched_epoch: int  # the epoch of the record before `offset`; -1 if none
    log_start_offset: int


class Limits(NamedTuple):
    """The limits of waiting time and sizes that a request sets for the leader."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


class Replica(NamedTuple):
    """The fetching replica, and the epoch of its process (KIP-903)."""

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
        session: the session's id and the epoch of this request (KIP-227).
        wanted: partitions that are new in the session or whose position has changed.
        forgotten: partitions to remove from the session.
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
