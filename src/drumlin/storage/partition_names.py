"""Names of partition folders: `topic-partition`, once deleted `topic-partition.<hex>-delete`.

`topic-partition.<hex>-future` is on its way to the log dir that it is in (`log_move.py`), and
`topic-partition.<hex>-stray`, as in Apache Kafka, a folder of no known topic: kept, not served.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

DELETE_SUFFIX: Final = "-delete"
FUTURE_SUFFIX: Final = "-future"
STRAY_SUFFIX: Final = "-stray"
_NAME_MAX: Final = 255


def directory_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_directory_name(name: str) -> tuple[str, int] | None:
    """Topic and partition, or None if the folder is not a live partition's."""
    topic, dash, partition = name.rpartition("-")
    if not (dash and topic and partition.isascii() and partition.isdigit()):
        return None
    return topic, int(partition)


def deleted_directory_name(topic: str, partition: int) -> str:
    """A name that no topic can have; a long topic's name is cut to fit."""
    return _unique_name(topic, partition, DELETE_SUFFIX)


def stray_directory_name(topic: str, partition: int) -> str:
    """Like `deleted_directory_name`, for a folder that is to be kept."""
    return _unique_name(topic, partition, STRAY_SUFFIX)


def future_directory_name(topic: str, partition: int) -> str:
    """The same, for a log on its way to another log dir."""
    return _unique_name(topic, partition, FUTURE_SUFFIX)


def _unique_name(topic: str, partition: int, ending: str) -> str:
    suffix = f"-{partition}.{uuid4().hex}{ending}"
    return topic[: _NAME_MAX - len(suffix)] + suffix
