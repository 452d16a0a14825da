"""The answer about ACLs of a broker without an authorizer, as in Apache Kafka."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode, KafkaError


def no_acls() -> KafkaError:
    """The error for a request to read or change ACLs."""
    return KafkaError(ErrorCode.security_disabled, "no authorizer is configured on the broker")
