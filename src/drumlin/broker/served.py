"""Which APIs and versions this broker serves: the one place that says so.

APIs in this table are advertised in ApiVersions and routed; others are refused by closing the
connection, as Apache Kafka does. The ranges are those of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

SERVED: Final[dict[str, tuple[int, int]]] = {
    "produce": (3, 13),
    "fetch": (4, 18),
    "list_offsets": (1, 11),
    "metadata": (0, 13),
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
    "create_topics": (2, 7),
    "delete_topics": (1, 6),
    "delete_records": (0, 2),
    "init_producer_id": (0, 5),
    "offset_for_leader_epoch": (2, 4),
    "add_partitions_to_txn": (0, 5),
    "add_offsets_to_txn": (0, 4),
    "end_txn": (0, 5),
    "write_txn_markers": (1, 2),
    "txn_offset_commit": (0, 5),
    "describe_configs": (1, 4),
    "alter_configs": (0, 2),
    "describe_log_dirs": (1, 5),
    "create_partitions": (0, 3),
    "delete_groups": (0, 2),
    "incremental_alter_configs": (0, 1),
    "offset_delete": (0, 0),
    "describe_cluster": (0, 2),
    "describe_producers": (0, 0),
    "describe_transactions": (0, 0),
    "list_transactions": (0, 2),
    "consumer_group_heartbeat": (0, 1),
    "consumer_group_describe": (0, 1),
    "describe_topic_partitions": (0, 0),
    "initialize_share_group_state": (0, 0),
    "read_share_group_state": (0, 0),
    "write_share_group_state": (0, 1),
    "delete_share_group_state": (0, 0),
    "read_share_group_state_summary": (0, 1),
    "share_fetch": (1, 2),
    "share_acknowledge": (1, 2),
    "share_group_heartbeat": (1, 1),
    "share_group_describe": (1, 1),
    "describe_share_group_offsets": (0, 1),
    "alter_share_group_offsets": (0, 0),
    "delete_share_group_offsets": (0, 0),
    "list_config_resources": (0, 1),
}
