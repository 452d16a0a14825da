"""The events of MariaDB's binlog as bytes, except for those of rows. Pure.

Every event has a header and, if the server writes them, a checksum, which is verified.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from drumlin.capture.binlog_events.gtids import Gtid
from drumlin.capture.errors import CaptureError

QUERY: Final = 2
ROTATE: Final = 4
_FORMAT_DESCRIPTION: Final = 15
XID: Final = 16
EXECUTE_LOAD_QUERY: Final = 18
TABLE_MAP: Final = 19
INCIDENT: Final = 26
XA_PREPARE: Final = 38
GTID: Final = 162
QUERY_COMPRESSED: Final = 165
#: Events of inserted, updated and deleted rows; each plain and compressed.
WRITE_ROWS: Final = (23, 166)
UPDATE_ROWS: Final = (24, 167)
DELETE_ROWS: Final = (25, 168)
COMPRESSED_ROWS: Final = (166, 167, 168)
ROWS: Final = frozenset((*WRITE_ROWS, *UPDATE_ROWS, *DELETE_ROWS))
#: Events that change no row: of the log itself, of statements' settings, and heartbeats. LOAD DATA
#: that is logged as a statement ends with EXECUTE_LOAD_QUERY.
_WITHOUT_CHANGES: Final = frozenset(
    (3, ROTATE, 5, 9, 11, 13, 14, _FORMAT_DESCRIPTION, 17, 27, 160, 161, 163, 164)
)
_KNOWN: Final = ROWS | frozenset(
    (QUERY, XID, EXECUTE_LOAD_QUERY, TABLE_MAP, INCIDENT, XA_PREPARE, GTID, QUERY_COMPRESSED)
)
_HEADER: Final = struct.Struct("<IBIIIH")
_CHECKSUM_SIZE: Final = 4
_MAY_BE_IGNORED: Final = 0x80
_CRC32: Final = 1
#: The flags of a GTID event, which tell the kind of its group.
_IS_STANDALONE: Final = 1
_HAS_COMMIT_ID: Final = 2
_IS_PREPARED_XA: Final = 64
_IS_COMPLETED_XA: Final = 128
_ANSI_QUOTES: Final = 4


class Event(NamedTuple):
    """An event that may change something."""

    kind: int
    time_s: int
    server_id: int
    body: memoryview


class Group(NamedTuple):
    """The beginning of a group of events, mostly of a transaction."""

    gtid: Gtid
    is_standalone: bool  # one statement, without a commit
    xid: bytes | None  # the id of an XA transaction that is prepared or completed
    is_prepared: bool


class Query(NamedTuple):
    """A statement that is logged as text."""

    schema: str
    text: str
    has_ansi_quotes: bool


class EventDecoder:
    """Removes headers and checksums. `has_checksums`: whether the first event has a checksum."""

    def __init__(self, has_checksums: bool) -> None:
        self._has_checksums = has_checksums

    def take(self, data: memoryview) -> Event | None:
        """The event; None: it changes nothing.

        Raises:
            CaptureError: the event is damaged, or of an unknown kind.
        """
        try:
            time_s, kind, server_id, size, _, flags = _HEADER.unpack_from(data)
            if size != len(data):
                raise CaptureError(f"the binlog has an event of {size} bytes in {len(data)}")
            if kind == _FORMAT_DESCRIPTION:
                self._has_checksums = data[-_CHECKSUM_SIZE - 1] == _CRC32
            if self._has_checksums:
                self._verify(data)
                data = data[:-_CHECKSUM_SIZE]
        except (struct.error, IndexError):
            raise CaptureError("the binlog has an event that is cut short") from None
        if kind in _WITHOUT_CHANGES:
            return None
        if kind not in _KNOWN:
            if flags & _MAY_BE_IGNORED:
                return None
            raise CaptureError(
                f"the binlog has an event of kind {kind}, which this version of Drumlin does not "
                "know: it may hold changes"
            )
        return Event(kind, time_s, server_id, data[_HEADER.size :])

    def _verify(self, data: memoryview) -> None:
        (expected,) = struct.unpack_from("<I", data, len(data) - _CHECKSUM_SIZE)
        if zlib.crc32(data[:-_CHECKSUM_SIZE]) != expected:
            raise CaptureError("an event of the binlog is damaged: its checksum is another one")


def group_of(event: Event) -> Group:
    """
    Raises:
        CaptureError: the event is damaged.
    """
    try:
        sequence, domain, flags = struct.unpack_from("<QIB", event.body)
        xid, position = None, 21 if flags & _HAS_COMMIT_ID else 13
        if flags & (_IS_PREPARED_XA | _IS_COMPLETED_XA):
            length = 6 + event.body[position + 4] + event.body[position + 5]
            xid = bytes(event.body[position : position + length])
    except (struct.error, IndexError):
        raise CaptureError("the binlog has a GTID that is cut short") from None
    is_standalone = bool(flags & _IS_STANDALONE)
    gtid = Gtid(domain, event.server_id, sequence)
    return Group(gtid, is_standalone, xid, bool(flags & _IS_PREPARED_XA))


def query_of(event: Event) -> Query:
    """
    Raises:
        CaptureError: the event is damaged.
    """
    body = event.body
    try:
        schema_length, _, status_length = struct.unpack_from("<BHH", body, 8)
        position = 13
        if event.kind == EXECUTE_LOAD_QUERY:
            position += 13
        status = body[position : position + status_length]
        position += status_length
        schema = bytes(body[position : position + schema_length]).decode()
        text = body[position + schema_length + 1 :]
        found = uncompressed(text) if event.kind == QUERY_COMPRESSED else bytes(text)
        # The status begins with the flags (0, four bytes) and the SQL mode (1, eight bytes).
        at = 5 if len(status) and status[0] == 0 else 0
        has_mode = len(status) >= at + 9 and status[at] == 1
        mode = int.from_bytes(status[at + 1 : at + 9], "little") if has_mode else 0
    except (struct.error, IndexError, UnicodeDecodeError):
        raise CaptureError("the binlog has a statement that is cut short") from None
    return Query(schema, found.decode(errors="replace"), bool(mode & _ANSI_QUOTES))


def uncompressed(data: memoryview) -> bytes:
    """The content of an event that the server has compressed (`log_bin_compress`).

    Raises:
        CaptureError: the data are damaged.
    """
    try:
        if (data[0] >> 4) & 7:
            raise CaptureError("the binlog is compressed in a way that is not known")
        return zlib.decompress(data[1 + (data[0] & 7) :])
    except (IndexError, zlib.error):
        raise CaptureError("an event of the binlog is damaged: it cannot be decompressed") from None
