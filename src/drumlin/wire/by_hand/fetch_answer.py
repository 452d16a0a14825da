"""Fetch responses, written one partition at a time: all versions from the same plain tuples.

A slice of a log file is a part of its own and goes through untouched, so that it can be sent by
`sendfile`. Tests compare every version with `encode_response`, byte for byte.

    v4:     throttle_time [name [index error high_watermark last_stable_offset [aborted] records]]
    v5-6:   also the log start offset
    v7-10:  error and session id before the topics
    v11:    the preferred read replica (KIP-392)
    v12:    compact lengths and tagged fields; the offset of divergence from our log (KIP-595)
    v13-18: topic ids instead of names; from 16 on current leaders (KIP-951)
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from drumlin.wire.by_hand.leader_hints import CurrentLeader, NodeEndpoint, endpoints_tag, leader_tag
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.uvarint import ONE_BYTE, uvarint

_LOG_START_OFFSETS_FROM: Final = 5
_SESSIONS_FROM: Final = 7
_READ_REPLICAS_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13
_LEADERS_FROM: Final = 16
_LEADER_TAG: Final = 1
_UNKNOWN: Final = -1
_NO_SESSION: Final = 0
_LENGTH_SIZE: Final = 4
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ihqqq")
_HEAD_4: Final = struct.Struct(">ihqq")
_ABORTED: Final = struct.Struct(">qq")
_ABORTED_TAGGED: Final = struct.Struct(">qqx")
_NO_REPLICA: Final = _INT32.pack(_UNKNOWN)
#: One tagged field, number 0, of 13 bytes, itself without tagged fields.
_DIVERGING: Final = struct.Struct(">bbbiqx")
_DIVERGING_SIZE: Final = 13


class PreferredReplica(NamedTuple):
    """The broker from which a consumer should read (KIP-392), in versions that have this field."""

    node_id: int


#: No records.
NOTHING: Final = b""
#: Error number, high watermark, last stable offset, log start offset; producer ids and first
#: offsets of aborted transactions (None is null on the wire, an empty sequence is not); records,
#: bytes or a slice of a file; epoch and end offset if the reader's log diverges, or the leader if
#: this broker does not lead, or the replica to read from, or None. A tuple: there may be many.
Answer = tuple[
    int,
    int,
    int,
    int,
    Sequence[tuple[int, int]] | None,
    Any,
    tuple[int, int] | CurrentLeader | PreferredReplica | None,
]


def failed(
    code: ErrorCode,
    aborted: Sequence[tuple[int, int]] | None = None,
    leader: CurrentLeader | None = None,
) -> Answer:
    """The answer for a partition that cannot be read."""
    return code.value, _UNKNOWN, _UNKNOWN, _UNKNOWN, aborted, NOTHING, leader


@functools.cache
def fetch_answers(version: int) -> FetchAnswers:
    """The writer for the responses of a version."""
    return FetchAnswers(version)


class FetchAnswers:
    """A writer of one version: call `topic` and `partitions` for each topic, then `frame`."""

    __slots__ = (
        "_aborted",
        "_flexible",
        "_has_session",
        "_no_records",
        "_nothing_aborted",
        "_null_aborted",
        "_pack_head",
        "_replica",
        "_sizes_names",
        "_start",
        "tells_leaders",
        "topic_end",
    )

    def __init__(self, version: int) -> None:
        flexible = self._flexible = version >= _FLEXIBLE_FROM
        self.tells_leaders = version >= _LEADERS_FROM
        self._has_session = version >= _SESSIONS_FROM
        # Length, correlation id, tags of the header, throttle time; error and session id.
        session = "hi" if self._has_session else ""
        self._start = struct.Struct(">ii" + ("x" if flexible else "") + "i" + session)
        self._sizes_names = version < _TOPIC_IDS_FROM
        self._pack_head = _HEAD.pack if version >= _LOG_START_OFFSETS_FROM else _pack_head_4
        self._aborted = _ABORTED_TAGGED if flexible else _ABORTED
        self._replica = _NO_REPLICA if version >= _READ_REPLICAS_FROM else b""
        self.topic_end = b"\x00" if flexible else b""
        self._null_aborted = (b"\x00" if flexible else _INT32.pack(-1)) + self._replica
        self._nothing_aborted = self._count(0) + self._replica
        self._no_records = (b"\x01" if flexible else _INT32.pack(0)) + self.topic_end

    def topic(self, topic: bytes, count: int) -> bytes:
        """The fields before the `count` partitions of a topic; `topic_end` follows them."""
        if self._flexible:
            counted = ONE_BYTE[count + 1] if count < 127 else uvarint(count + 1)
            return (
                uvarint(len(topic) + 1) + topic + counted if self._sizes_names else topic + counted
            )
        return _INT16.pack(len(topic)) + topic + _INT32.pack(count)

    def partitions(self, pieces: list[Any], answers: Iterable[tuple[int, Answer]]) -> None:
        """Add partitions, by their index, to the pieces of a response."""
        pack_head, put = self._pack_head, pieces.append
        null_aborted, nothing_aborted = self._null_aborted, self._nothing_aborted
        no_records, flexible = self._no_records, self._flexible
        for index, answer in answers:
            error, high_watermark, last_stable_offset, start, aborted, records, diverging = answer
            head = pack_head(index, error, high_watermark, last_stable_offset, start)
            if aborted is None:
                head += null_aborted
            elif aborted:
                head += self._all_aborted(aborted)
            else:
                head += nothing_aborted
            size = len(records) if records is not None else 0
            if size:
                put(head + (uvarint(size + 1) if flexible else _INT32.pack(size)))
                put(records)
                if flexible:
                    put(b"\x00")
            elif diverging is None:
                put(head + no_records)
            elif isinstance(diverging, PreferredReplica):
                put(head[: -_INT32.size] + _INT32.pack(diverging[0]) + no_records)
            elif isinstance(diverging, CurrentLeader):
                tag = leader_tag(_LEADER_TAG, diverging) if self.tells_leaders else self.topic_end
                put(head + no_records[:-1] + tag if flexible else head + no_records)
            else:
                put(head + b"\x01" + _DIVERGING.pack(1, 0, _DIVERGING_SIZE, *diverging))

    def frame(
        self,
        correlation_id: int,
        topics: int,
        pieces: list[Any],
        *,
        session_id: int = _NO_SESSION,
        error: int = 0,
        endpoints: Sequence[NodeEndpoint] = (),
        throttle_ms: int = 0,
    ) -> list[Any]:
        """The frame with its length prefix, as parts to send one after the other.

        pieces: all topics; the caller must not use the list afterwards.
        endpoints: the endpoints of the leaders that answers name.
        """
        pieces.append(endpoints_tag(endpoints) if endpoints else self.topic_end)
        size = sum(map(len, pieces))
        run = [self._head(correlation_id, topics, size, session_id, error, throttle_ms)]
        parts: list[Any] = []
        for piece in pieces:
            if type(piece) is bytes:
                run.append(piece)
            else:
                parts.append(b"".join(run))
                parts.append(piece)
                run = []
        last = b"".join(run)
        if last:
            parts.append(last)
        return parts

    def frame_of(
        self,
        correlation_id: int,
        topics: int,
        joined: Joined,
        session_id: int = _NO_SESSION,
        endpoints: Sequence[NodeEndpoint] = (),
    ) -> list[Any]:
        """Like `frame`, with pieces that are joined already: joining very many takes long."""
        end = endpoints_tag(endpoints) if endpoints else self.topic_end
        head = self._head(correlation_id, topics, joined.size + len(end), session_id, 0)
        return joined.parts(head, end)

    def _head(
        self,
        correlation_id: int,
        topics: int,
        size: int,
        session_id: int,
        error: int,
        throttle_ms: int = 0,
    ) -> bytes:
        """The bytes before the topics; `size` is that of the topics and the bytes after them."""
        if self._has_session:
            start = self._start.pack(0, correlation_id, throttle_ms, error, session_id)
        else:
            start = self._start.pack(0, correlation_id, throttle_ms)
        start += self._count(topics)
        return _INT32.pack(len(start) - _LENGTH_SIZE + size) + start[_LENGTH_SIZE:]

    def _all_aborted(self, aborted: Sequence[tuple[int, int]]) -> bytes:
        pack = self._aborted.pack
        entries = b"".join([pack(producer_id, offset) for producer_id, offset in aborted])
        return self._count(len(aborted)) + entries + self._replica

    def _count(self, count: int) -> bytes:
        return uvarint(count + 1) if self._flexible else _INT32.pack(count)


#: Above this number, pieces are joined immediately, while that is still quick.
_PIECES_MAX: Final = 1000


class Joined:
    """Pieces of a response as parts to send: adjacent bytes become one part."""

    __slots__ = ("_parts", "_run", "size")

    def __init__(self) -> None:
        self.size = 0
        self._run = [b""]  # in place of the frame's head
        self._parts: list[Any] = []

    def add(self, pieces: list[Any]) -> None:
        """Add more pieces."""
        parts, run = self._parts, self._run
        for piece in pieces:
            if type(piece) is bytes:
                run.append(piece)
            else:
                parts.append(b"".join(run))
                parts.append(piece)
                run = []
        if len(run) > _PIECES_MAX:
            parts.append(b"".join(run))
            run = []
        self._run = run
        self.size += sum(map(len, pieces))

    def parts(self, head: bytes, end: bytes) -> list[Any]:
        """All pieces, between a head and an end."""
        parts, run = self._parts, self._run
        run.append(end)
        if parts:
            parts[0] = head + parts[0]
        else:
            run[0] = head
        last = b"".join(run)
        if last:
            parts.append(last)
        return parts


def _pack_head_4(
    index: int, error: int, high_watermark: int, last_stable_offset: int, _: int
) -> bytes:
    return _HEAD_4.pack(index, error, high_watermark, last_stable_offset)
