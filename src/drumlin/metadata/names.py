"""Rules for topic names, and the names of Kafka's internal topics. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from drumlin.wire.error_codes import ErrorCode, KafkaError

GROUP_METADATA: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
CLUSTER_METADATA: Final = "__cluster_metadata"

INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA, TRANSACTION_STATE, SHARE_GROUP_STATE})
NAME_LENGTH_MAX: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Refuse an invalid topic name, as topic names are used in names of folders and metrics.

    Raises:
        KafkaError: INVALID_TOPIC_EXCEPTION.
    """
    reason = None
    if not name:
        reason = "a topic needs a name"
    elif name in (".", ".."):
        reason = f"{name!r} is no name for a topic"
    elif len(name) > NAME_LENGTH_MAX:
        reason = f"{name!r} is longer than {NAME_LENGTH_MAX} characters"
    elif not _LEGAL.fullmatch(name):
        reason = f"{name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    if reason is not None:
        raise KafkaError(ErrorCode.invalid_topic_exception, reason)


def collision_key(name: str) -> str:
    """A key that is equal for names that differ only in `.` and `_`, which are the same in
    metrics.
    """
    return name.replace(".", "_")


def check_no_collision(name: str, existing: Iterable[str]) -> None:
    """Refuse a topic name whose metrics would collide with those of an existing topic.

    Raises:
        KafkaError: INVALID_TOPIC_EXCEPTION.
    """
    for other in existing:
        if other != name:
            message = f"{name} and the existing topic {other} would be the same in metrics"
            raise KafkaError(ErrorCode.invalid_topic_exception, message)
