"""The errors for what a principal may not do, by the kind of the resource.

They are the same whether the resource exists or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drumlin.broker.rights.acls import Kind
from drumlin.wire.error_codes import ErrorCode, KafkaError

DENIED: Final[Mapping[Kind, ErrorCode]] = {
    Kind.TOPIC: ErrorCode.topic_authorization_failed,
    Kind.GROUP: ErrorCode.group_authorization_failed,
    Kind.CLUSTER: ErrorCode.cluster_authorization_failed,
    Kind.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
    Kind.DELEGATION_TOKEN: ErrorCode.delegation_token_authorization_failed,
    Kind.USER: ErrorCode.delegation_token_authorization_failed,
}


_NAMES: Final[Mapping[Kind, str]] = {
    Kind.TOPIC: "Topic",
    Kind.GROUP: "Group",
    Kind.CLUSTER: "Cluster",
    Kind.TRANSACTIONAL_ID: "Transactional Id",
    Kind.DELEGATION_TOKEN: "Delegation Token",
    Kind.USER: "Delegation Token",
}


def denied(kind: Kind) -> KafkaError:
    """The error for a resource of this kind, with Apache Kafka's message."""
    return KafkaError(DENIED[kind], f"{_NAMES[kind]} authorization failed.")
