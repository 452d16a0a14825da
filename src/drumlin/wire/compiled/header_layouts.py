"""Which headers go with which API and version, known without its schema.

A request's header is read first, on the event loop. The schema of an API says the same, but takes
tens of milliseconds to import when it is first used. Tests hold this table against the schemas.
"""

from __future__ import annotations

from typing import Final

_NEVER: Final = 2**15
#: The first version whose headers have tagged fields (KIP-482); 0 for every API that is not here.
_FLEXIBLE_FROM: Final = {
    **dict.fromkeys(
        (
            *("alter_client_quotas", "begin_quorum_epoch", "describe_client_quotas"),
            *("end_quorum_epoch", "incremental_alter_configs", "share_acknowledge", "share_fetch"),
            *("share_group_describe", "share_group_heartbeat", "write_txn_markers"),
        ),
        1,
    ),
    **dict.fromkeys(
        (
            *("alter_configs", "alter_partition", "alter_replica_log_dirs", "create_acls"),
            *("create_delegation_token", "create_partitions", "delete_acls", "delete_groups"),
            *("delete_records", "describe_acls", "describe_delegation_token", "describe_log_dirs"),
            *("elect_leaders", "expire_delegation_token", "init_producer_id"),
            *("renew_delegation_token", "sasl_authenticate"),
        ),
        2,
    ),
    **dict.fromkeys(
        (
            *("add_offsets_to_txn", "add_partitions_to_txn", "api_versions", "end_txn"),
            *("find_coordinator", "list_groups", "txn_offset_commit"),
        ),
        3,
    ),
    **dict.fromkeys(
        (
            *("delete_topics", "describe_configs", "heartbeat", "leave_group"),
            *("offset_for_leader_epoch", "sync_group"),
        ),
        4,
    ),
    **dict.fromkeys(("create_topics", "describe_groups"), 5),
    **dict.fromkeys(("join_group", "list_offsets", "offset_fetch"), 6),
    "offset_commit": 8,
    **dict.fromkeys(("metadata", "produce"), 9),
    "fetch": 12,
    **dict.fromkeys(("offset_delete", "sasl_handshake"), _NEVER),
}


def has_flexible_request_header(api_name: str, version: int) -> bool:
    """Whether tagged fields follow the client id."""
    return version >= _FLEXIBLE_FROM.get(api_name, 0)


def has_flexible_response_header(api_name: str, version: int) -> bool:
    """Whether tagged fields follow the correlation id."""
    # KIP-511: an ApiVersions response always has the old header, so that a client that
    # guessed a version too high can still read it.
    return api_name != "api_versions" and has_flexible_request_header(api_name, version)
