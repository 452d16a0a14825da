"""Which APIs and versions this broker serves: the one place that says so.

What stands here is advertised in ApiVersions and routed; what does not is refused by closing
the connection, as Apache Kafka does. The ranges are those of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

SERVED: Final[dict[str, tuple[int, int]]] = {
    "produce": (3, 13),
    "fetch": (4, 18),
    "list_offsets": (1, 11),
    "offset_commit": (2, 10),
    "offset_fetch": (1, 10),
    "find_coordinator": (0, 6),
    "join_group": (0, 9),
    "heartbeat": (0, 4),
    "leave_group": (0, 5),
    "sync_group": (0, 5),
    "describe_groups": (0, 6),
    "list_groups": (0, 5),
    "api_versions": (0, 4),
    "init_producer_id": (0, 5),
    "delete_groups": (0, 2),
    "offset_delete": (0, 0),
}
