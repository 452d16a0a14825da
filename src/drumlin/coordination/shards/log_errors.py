"""Errors of a coordinator's log, and the errors that clients get instead.

Clients do not know the partitions in which coordinators keep their state. So an error of such a
partition makes a client look up its coordinator again, or wait.
"""

from __future__ import annotations

from typing import Final

from drumlin.wire.error_codes import ErrorCode, KafkaError

_TOLD: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}


class TooLarge(KafkaError):
    """Records that must form one batch are too large for a batch."""

    def __init__(self) -> None:
        super().__init__(_TOLD[ErrorCode.record_list_too_large], "it is too large for one batch")


def as_told(error: KafkaError) -> KafkaError:
    """The error for the client."""
    return KafkaError(_TOLD.get(error.code, error.code), error.message)
