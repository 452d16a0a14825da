"""Committing a group's offsets from outside, wherever its coordinator is at the moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from rig.waiting import wait_until

#: The coordinator's topic has just been created, or moves.
_LATER = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._WAIT_COORD,
)


def commit_offset(
    settings: Mapping[str, Any], group: str, topic: str, partition: int, offset: int
) -> None:
    consumer = Consumer({**settings, "group.id": group})

    def is_committed() -> bool:
        wanted = [TopicPartition(topic, partition, offset)]
        try:
            consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in _LATER:
                raise
            return False
        return True

    try:
        wait_until(is_committed, f"a commit of {group}")
    finally:
        consumer.close()
