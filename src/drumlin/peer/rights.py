"""The right that a user lacks when a broker refuses a request, in the terms of Kafka's ACLs.

A broker's error names only the kind of resource; the operation follows from the request.
"""

from __future__ import annotations

from typing import Final

from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The name here of a Metadata request that creates missing topics.
CREATING: Final = "metadata, creating"

_CLUSTER: Final = ErrorCode.cluster_authorization_failed
_GROUP: Final = ErrorCode.group_authorization_failed
_ID: Final = ErrorCode.transactional_id_authorization_failed
_TOPIC: Final = ErrorCode.topic_authorization_failed

_OF_MEMBERS: Final = (
    "join_group",
    "sync_group",
    "heartbeat",
    "leave_group",
    "consumer_group_heartbeat",
    "offset_commit",
)
_WRITE_ID: Final = "WRITE on the transactional id"
_RIGHTS: Final = {
    ("metadata", _TOPIC): "DESCRIBE on the topic, which READ and WRITE include",
    ("fetch", _TOPIC): "READ on the topic",
    ("list_offsets", _TOPIC): "DESCRIBE on the topic",
    ("offset_for_leader_epoch", _TOPIC): "DESCRIBE on the topic",
    ("create_topics", _TOPIC): "CREATE on the topic, or on the cluster",
    ("create_partitions", _TOPIC): "ALTER on the topic",
    ("delete_topics", _TOPIC): "DELETE on the topic",
    ("delete_records", _TOPIC): "DELETE on the topic",
    ("describe_configs", _TOPIC): "DESCRIBE_CONFIGS on the topic",
    ("incremental_alter_configs", _TOPIC): "ALTER_CONFIGS on the topic",
    # Brokers give the same answer for a hidden topic and for one that they would have to create. A
    # client that lets them create it intends to write.
    (CREATING, _TOPIC): "WRITE on the topic, and CREATE if it is not there",
    ("produce", _TOPIC): "WRITE on the topic",
    ("produce", _ID): _WRITE_ID,
    ("produce", _CLUSTER): "IDEMPOTENT_WRITE on the cluster",
    ("find_coordinator", _GROUP): "DESCRIBE on the group, which READ includes",
    ("find_coordinator", _ID): "DESCRIBE on the transactional id, which WRITE includes",
    **{(each, _GROUP): "READ on the group" for each in _OF_MEMBERS},
    ("consumer_group_heartbeat", _TOPIC): "DESCRIBE on the topic",
    ("offset_commit", _TOPIC): "READ on the topic",
    ("offset_fetch", _GROUP): "DESCRIBE on the group",
    ("offset_fetch", _TOPIC): "DESCRIBE on the topic",
    ("offset_delete", _GROUP): "DELETE on the group",
    ("offset_delete", _TOPIC): "READ on the topic",
    ("describe_groups", _GROUP): "DESCRIBE on the group",
    ("delete_groups", _GROUP): "DELETE on the group",
    ("init_producer_id", _ID): _WRITE_ID,
    ("init_producer_id", _CLUSTER): "WRITE on a topic, or IDEMPOTENT_WRITE on the cluster",
    ("add_partitions_to_txn", _ID): _WRITE_ID,
    ("add_partitions_to_txn", _TOPIC): "WRITE on the topic",
    ("add_offsets_to_txn", _ID): _WRITE_ID,
    ("add_offsets_to_txn", _GROUP): "READ on the group",
    ("txn_offset_commit", _ID): _WRITE_ID,
    ("txn_offset_commit", _GROUP): "READ on the group",
    ("txn_offset_commit", _TOPIC): "READ on the topic",
    ("end_txn", _ID): _WRITE_ID,
    ("describe_transactions", _ID): "DESCRIBE on the transactional id",
    ("describe_producers", _TOPIC): "READ on the topic",
    ("write_txn_markers", _CLUSTER): "CLUSTER_ACTION on the cluster",
}


class Denied(KafkaError):
    """The broker refused a request because the user lacks `right`."""

    def __init__(self, code: ErrorCode, message: str, right: str) -> None:
        super().__init__(code, message)
        self.right = right

    def __str__(self) -> str:
        why = f"this user has no right to it, as it takes {self.right} ({self.code.name})"
        return f"{self.message}: {why}"


def lacking(api_name: str, code: ErrorCode) -> str | None:
    """The right that is missing if a broker answers a request with this code."""
    return _RIGHTS.get((api_name, code))


def refusal(api_name: str, code: ErrorCode, what: str) -> KafkaError:
    """The exception for a broker's error code."""
    right = lacking(api_name, code)
    return KafkaError(code, what) if right is None else Denied(code, what, right)
