"""The APIs of the Kafka protocol: key, versions, and the first flexible version.

A request's header is read on the event loop before anything of its API is imported. The last
version of an API is the last one declared in `wire/protocol`, if the API has a file there; which
versions a broker serves is not decided here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_NEVER: Final = 2**15


class Api(NamedTuple):
    """An API. From version `flexible_from` on its messages have tagged fields (KIP-482)."""

    key: int
    first: int
    last: int
    flexible_from: int


APIS: Final = {
    "produce": Api(0, 3, 13, 9),
    "fetch": Api(1, 4, 18, 12),
    "list_offsets": Api(2, 1, 11, 6),
    "metadata": Api(3, 0, 13, 9),
    "offset_commit": Api(8, 2, 10, 8),
    "offset_fetch": Api(9, 1, 10, 6),
    "find_coordinator": Api(10, 0, 6, 3),
    "join_group": Api(11, 0, 9, 6),
    "heartbeat": Api(12, 0, 4, 4),
    "leave_group": Api(13, 0, 5, 4),
    "sync_group": Api(14, 0, 5, 4),
    "describe_groups": Api(15, 0, 6, 5),
    "list_groups": Api(16, 0, 5, 3),
    "sasl_handshake": Api(17, 0, 1, _NEVER),
    "api_versions": Api(18, 0, 4, 3),
    "create_topics": Api(19, 2, 7, 5),
    "delete_topics": Api(20, 1, 6, 4),
    "delete_records": Api(21, 0, 2, 2),
    "init_producer_id": Api(22, 0, 6, 2),
    "offset_for_leader_epoch": Api(23, 2, 4, 4),
    "add_partitions_to_txn": Api(24, 0, 5, 3),
    "add_offsets_to_txn": Api(25, 0, 4, 3),
    "end_txn": Api(26, 0, 5, 3),
    "write_txn_markers": Api(27, 1, 2, 1),
    "txn_offset_commit": Api(28, 0, 5, 3),
    "describe_acls": Api(29, 1, 3, 2),
    "create_acls": Api(30, 1, 3, 2),
    "delete_acls": Api(31, 1, 3, 2),
    "describe_configs": Api(32, 1, 4, 4),
    "alter_configs": Api(33, 0, 2, 2),
    "alter_replica_log_dirs": Api(34, 1, 2, 2),
    "describe_log_dirs": Api(35, 1, 5, 2),
    "sasl_authenticate": Api(36, 0, 2, 2),
    "create_partitions": Api(37, 0, 3, 2),
    "create_delegation_token": Api(38, 1, 3, 2),
    "renew_delegation_token": Api(39, 1, 2, 2),
    "expire_delegation_token": Api(40, 1, 2, 2),
    "describe_delegation_token": Api(41, 1, 3, 2),
    "delete_groups": Api(42, 0, 2, 2),
    "elect_leaders": Api(43, 0, 2, 2),
    "incremental_alter_configs": Api(44, 0, 1, 1),
    "alter_partition_reassignments": Api(45, 0, 1, 0),
    "list_partition_reassignments": Api(46, 0, 0, 0),
    "offset_delete": Api(47, 0, 0, _NEVER),
    "describe_client_quotas": Api(48, 0, 1, 1),
    "alter_client_quotas": Api(49, 0, 1, 1),
    "describe_user_scram_credentials": Api(50, 0, 0, 0),
    "alter_user_scram_credentials": Api(51, 0, 0, 0),
    "vote": Api(52, 0, 2, 0),
    "begin_quorum_epoch": Api(53, 0, 1, 1),
    "end_quorum_epoch": Api(54, 0, 1, 1),
    "describe_quorum": Api(55, 0, 2, 0),
    "alter_partition": Api(56, 2, 3, 2),
    "update_features": Api(57, 0, 2, 0),
    "envelope": Api(58, 0, 0, 0),
    "fetch_snapshot": Api(59, 0, 1, 0),
    "describe_cluster": Api(60, 0, 2, 0),
    "describe_producers": Api(61, 0, 0, 0),
    "broker_registration": Api(62, 0, 4, 0),
    "broker_heartbeat": Api(63, 0, 2, 0),
    "unregister_broker": Api(64, 0, 0, 0),
    "describe_transactions": Api(65, 0, 0, 0),
    "list_transactions": Api(66, 0, 2, 0),
    "allocate_producer_ids": Api(67, 0, 0, 0),
    "consumer_group_heartbeat": Api(68, 0, 1, 0),
    "consumer_group_describe": Api(69, 0, 1, 0),
    "controller_registration": Api(70, 0, 0, 0),
    "get_telemetry_subscriptions": Api(71, 0, 0, 0),
    "push_telemetry": Api(72, 0, 0, 0),
    "assign_replicas_to_dirs": Api(73, 0, 0, 0),
    "list_config_resources": Api(74, 0, 1, 0),
    "describe_topic_partitions": Api(75, 0, 0, 0),
    "share_group_heartbeat": Api(76, 1, 1, 1),
    "share_group_describe": Api(77, 1, 1, 1),
    "share_fetch": Api(78, 1, 2, 1),
    "share_acknowledge": Api(79, 1, 2, 1),
    "add_raft_voter": Api(80, 0, 1, 0),
    "remove_raft_voter": Api(81, 0, 0, 0),
    "update_raft_voter": Api(82, 0, 0, 0),
    "initialize_share_group_state": Api(83, 0, 0, 0),
    "read_share_group_state": Api(84, 0, 0, 0),
    "write_share_group_state": Api(85, 0, 1, 0),
    "delete_share_group_state": Api(86, 0, 0, 0),
    "read_share_group_state_summary": Api(87, 0, 1, 0),
    "streams_group_heartbeat": Api(88, 0, 0, 0),
    "streams_group_describe": Api(89, 0, 0, 0),
    "describe_share_group_offsets": Api(90, 0, 1, 0),
    "alter_share_group_offsets": Api(91, 0, 0, 0),
    "delete_share_group_offsets": Api(92, 0, 0, 0),
}
#: The names of APIs by key.
NAMES: Final = {api.key: name for name, api in APIS.items()}


def is_flexible(api_name: str, version: int) -> bool:
    """Whether requests and responses have compact lengths and tagged fields."""
    return version >= APIS[api_name].flexible_from


def has_flexible_response_header(api_name: str, version: int) -> bool:
    """Whether tagged fields follow the correlation id."""
    # KIP-511: an ApiVersions response always has the old header, so that a client that
    # guessed a version too high can still read it.
    return api_name != "api_versions" and is_flexible(api_name, version)
