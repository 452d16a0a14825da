"""Names of partition folders: `topic-partition`, once deleted `topic-partition.<hex>-delete`."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

DELETE_SUFFIX: Final = "-delete"
_NAME_MAX: Final = 255


def directory_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_directory_name(name: str) -> tuple[str, int] | None:
    """Topic and partition, or None for a folder that is no live partition's."""
    topic, dash, partition = name.rpartition("-")
    if not (dash and topic and partition.isascii() and partition.isdigit()):
        return None
    return topic, int(partition)


def deleted_directory_name(topic: str, partition: int) -> str:
    """A name that no topic can have; a long topic's name is cut to fit."""
    suffix = f"-{partition}.{uuid4().hex}{DELETE_SUFFIX}"
    return topic[: _NAME_MAX - len(suffix)] + suffix
