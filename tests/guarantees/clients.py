"""Consumers of librdkafka as these proofs need them, and which of their errors pass."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError

#: Says that a broker cannot be reached, and the like; the client tries again by itself.
_PASSING = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._PARTITION_EOF,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError._WAIT_COORD,
    KafkaError._NO_OFFSET,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
}


def make_consumer(bootstrap: str, group: str, **settings: Any) -> Consumer:
    """Nothing is reset by itself: a position that is not there any more is a failure."""
    named = {key.replace("_", "."): value for key, value in settings.items()}
    plain = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "reconnect.backoff.max.ms": 500,
        "fetch.wait.max.ms": 100,
        "topic.metadata.refresh.interval.ms": 5000,
        "log_level": 0,
    }
    return Consumer(plain | named)


def is_passing(error: KafkaError) -> bool:
    return error.code() in _PASSING or error.retriable()


def membership(protocol: str) -> dict[str, Any]:
    """Settings of a member that is soon missed: of the `consumer` protocol (KIP-848), or classic.

    With the former the broker decides how soon that is. Classic protocols are named by how they
    assign.
    """
    if protocol == "consumer":
        return {"group_protocol": "consumer"}
    return {
        "partition_assignment_strategy": protocol,
        "session_timeout_ms": 2000,
        "heartbeat_interval_ms": 200,
    }
