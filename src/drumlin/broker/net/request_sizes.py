"""Size limits of requests, by API.

Apache Kafka has one limit for all APIs, `socket.request.max.bytes`, 100 MB by default, which leaves
room for records. No other request of an honest client comes near that. A parsed request takes ten
or more times its size on the wire, so the other APIs have their own, lower limits. They are checked
when the first bytes of a request have arrived, before memory for the rest is allocated.
"""

from __future__ import annotations

from typing import Final

from drumlin.wire.messages import API_KEYS

_MIB: Final = 1 << 20
#: 16,000 topics with the longest possible names, or half a million partitions.
_ORDINARY_BYTES: Final = 4 * _MIB
_LARGER: Final = {
    # These requests name up to hundreds of thousands of partitions one by one.
    "fetch": 8 * _MIB,
    "list_offsets": 8 * _MIB,
    "offset_fetch": 8 * _MIB,
    "write_txn_markers": 8 * _MIB,
    "create_topics": 8 * _MIB,
    "alter_configs": 8 * _MIB,
    "incremental_alter_configs": 8 * _MIB,
    # These requests have metadata or state of a client's choice for each partition.
    "offset_commit": 16 * _MIB,
    "txn_offset_commit": 16 * _MIB,
    "write_share_group_state": 16 * _MIB,
    # These requests have a byte for each acknowledged record.
    "share_fetch": 16 * _MIB,
    "share_acknowledge": 16 * _MIB,
    # These requests have a member's subscription and owned partitions, or all assignments.
    "join_group": 16 * _MIB,
    "sync_group": 32 * _MIB,
}
_BY_KEY: Final = {API_KEYS[name]: size for name, size in _LARGER.items()}
_PRODUCE: Final = API_KEYS["produce"]
#: `sasl.server.max.receive.size` of Apache Kafka. Tokens need a few thousand bytes.
_STRANGER_BYTES: Final = 512 * 1024


def stranger_bytes_max(_: int) -> int:
    """The size limit of a frame from a peer that is not authenticated yet."""
    return _STRANGER_BYTES


def request_bytes_max(api_key: int) -> int | None:
    """The size limit of a request without its length prefix; None if only the general limit
    applies.
    """
    return None if api_key == _PRODUCE else _BY_KEY.get(api_key, _ORDINARY_BYTES)
