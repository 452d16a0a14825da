"""Produce responses, written in one pass.

    v3-4:  [name [index error base_offset log_append_time]] throttle_time
    v5-7:  log_start_offset after log_append_time
    v8:    [record_errors] and error_message after that (KIP-467)
    v9-12: the same with compact lengths and tagged fields; from 10 on with current leaders
    v13:   topic_id instead of name

Tests compare this with the schemas.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from drumlin.wire.by_hand.leader_hints import CurrentLeader, NodeEndpoint, endpoints_tag, leader_tag
from drumlin.wire.by_hand.produce_request import FLEXIBLE_FROM, TOPIC_IDS_FROM, TopicProduce
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.encoder import put_cut_compact_string, put_cut_string
from drumlin.wire.uvarint import put_uvarint

_LOG_START_OFFSETS_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8
#: From this version on, the answer names the leader to a client that asked another broker
#: (KIP-951).
LEADERS_FROM: Final = 10
_LEADER_TAG: Final = 0
_UNKNOWN_OFFSET: Final = -1
_NO_TIME: Final = -1
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_FRAME_START: Final = struct.Struct(">ii")  # length, correlation id
_NO_TAGS: Final = b"\0"
_THROTTLE_TIME: Final = bytes(4)
_UP_TO_TIME: Final = struct.Struct(">ihqq")  # index, error, base offset, append time
_UP_TO_START: Final = struct.Struct(">ihqqq")  # and log start offset
#: For an accepted batch, by version: the layout, the number of fields of `Accepted` in it, and
#: the bytes after them (no record errors, no error message).
_ACCEPTED: Final = {
    **dict.fromkeys(range(3, 5), (_UP_TO_TIME, 2, b"")),
    **dict.fromkeys(range(5, 8), (_UP_TO_START, 3, b"")),
    8: (_UP_TO_START, 3, _INT32.pack(0) + _INT16.pack(-1)),
    **dict.fromkeys(range(FLEXIBLE_FROM, 14), (_UP_TO_START, 3, b"\x01\x00" + _NO_TAGS)),
}


#: A batch that is in the log: its base offset, the append time in ms (-1: the records keep their
#: producer's timestamps), the log start offset.
Accepted = tuple[int, int, int]


class Refused(NamedTuple):
    """A batch that was not appended."""

    code: ErrorCode
    log_start_offset: int = _UNKNOWN_OFFSET
    record_errors: Sequence[tuple[int, str]] = ()
    message: str | None = None
    leader: CurrentLeader | None = None


#: The outcome of one partition's batch.
Outcome = Accepted | Refused


def write_produce_answer(
    version: int,
    correlation_id: int,
    topics: Sequence[TopicProduce],
    outcomes: Sequence[Outcome],
    endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The frame, with its length prefix; `outcomes` are in the order of the partitions.

    `endpoints`: the addresses of the leaders that outcomes name, for versions that have them.
    """
    flexible = version >= FLEXIBLE_FROM
    body = bytearray(_FRAME_START.pack(0, correlation_id))
    if flexible:
        body += _NO_TAGS
    named = [topic for topic in topics if topic[1]]
    _put_count(body, len(named), flexible)
    accepted, fields, behind = _ACCEPTED[version]
    following = iter(outcomes)
    for topic, partitions in named:
        if version >= TOPIC_IDS_FROM:
            body += topic
        elif flexible:
            put_uvarint(body, len(topic) + 1)
            body += topic
        else:
            body += _INT16.pack(len(topic)) + topic
        _put_count(body, len(partitions), flexible)
        for index, _ in partitions:
            outcome = next(following)
            if isinstance(outcome, Refused):
                _put_refused(body, version, index, outcome)
            else:
                body += accepted.pack(index, 0, *outcome[:fields])
                body += behind
        if flexible:
            body += _NO_TAGS
    body += _THROTTLE_TIME
    if flexible:
        body += endpoints_tag(endpoints) if endpoints else _NO_TAGS
    _INT32.pack_into(body, 0, len(body) - _INT32.size)
    return bytes(body)


def _put_refused(body: bytearray, version: int, index: int, refused: Refused) -> None:
    code = refused.code.value
    if version < _LOG_START_OFFSETS_FROM:
        body += _UP_TO_TIME.pack(index, code, _UNKNOWN_OFFSET, _NO_TIME)
        return
    body += _UP_TO_START.pack(index, code, _UNKNOWN_OFFSET, _NO_TIME, refused.log_start_offset)
    if version < _RECORD_ERRORS_FROM:
        return
    flexible = version >= FLEXIBLE_FROM
    put_text = put_cut_compact_string if flexible else put_cut_string
    _put_count(body, len(refused.record_errors), flexible)
    for batch_index, message in refused.record_errors:
        body += _INT32.pack(batch_index)
        put_text(body, message)
        if flexible:
            body += _NO_TAGS
    put_text(body, refused.message)
    if flexible:
        told = refused.leader if version >= LEADERS_FROM else None
        body += _NO_TAGS if told is None else leader_tag(_LEADER_TAG, told)


def _put_count(body: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        put_uvarint(body, count + 1)
    else:
        body += _INT32.pack(count)
