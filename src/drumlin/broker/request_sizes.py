"""How large a request of each API may be.

Apache Kafka has one limit for all, `socket.request.max.bytes`, and 100 MB of it by default: room
for records. Nothing else that an honest client sends comes near. Read into objects it takes ten
and more times its bytes, so the other APIs have limits of their own, below that one. They are
checked when the first bytes of a request have arrived, before there is memory for the rest.
"""

from __future__ import annotations

from typing import Final

from drumlin.wire.messages import API_KEYS

_MIB: Final = 1 << 20
#: 16,000 topics with the longest names there can be, or half a million partitions.
_ORDINARY_BYTES: Final = 4 * _MIB
_LARGER: Final = {
    # Hundreds of thousands of partitions, which they name one by one.
    "fetch": 8 * _MIB,
    "list_offsets": 8 * _MIB,
    "offset_fetch": 8 * _MIB,
    "write_txn_markers": 8 * _MIB,
    "create_topics": 8 * _MIB,
    "alter_configs": 8 * _MIB,
    "incremental_alter_configs": 8 * _MIB,
    # Text or states of a client's choice for each partition.
    "offset_commit": 16 * _MIB,
    "txn_offset_commit": 16 * _MIB,
    "write_share_group_state": 16 * _MIB,
    # A byte for each record that is acknowledged.
    "share_fetch": 16 * _MIB,
    "share_acknowledge": 16 * _MIB,
    # What a member wants and has; and of all members what they get.
    "join_group": 16 * _MIB,
    "sync_group": 32 * _MIB,
}
_BY_KEY: Final = {API_KEYS[name]: size for name, size in _LARGER.items()}
_PRODUCE: Final = API_KEYS["produce"]


def request_bytes_max(api_key: int) -> int | None:
    """The most bytes of a request without its length; None: as many as any request may have."""
    return None if api_key == _PRODUCE else _BY_KEY.get(api_key, _ORDINARY_BYTES)
