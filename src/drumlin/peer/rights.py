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

_WRITE_ID: Final = "WRITE on the transactional id"
_RIGHTS: Final = {
    ("metadata", _TOPIC): "DESCRIBE on the topic",
    # Brokers give the same answer for a hidden topic and for one that they would have to create. A
    # client that lets them create it intends to write.
    (CREATING, _TOPIC): "WRITE on the topic, and CREATE if it is not there",
    ("produce", _TOPIC): "WRITE on the topic",
    ("produce", _ID): _WRITE_ID,
    ("produce", _CLUSTER): "IDEMPOTENT_WRITE on the cluster",
    ("find_coordinator", _GROUP): "DESCRIBE on the group",
    ("find_coordinator", _ID): "DESCRIBE on the transactional id",
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


def refusal(api_name: str, code: ErrorCode, what: str) -> KafkaError:
    """The exception for a broker's error code."""
    right = _RIGHTS.get((api_name, code))
    return KafkaError(code, what) if right is None else Denied(code, what, right)
