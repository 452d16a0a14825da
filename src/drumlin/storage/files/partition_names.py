"""Names of partition folders: `topic-partition`, after deletion `topic-partition.<hex>-delete`.

`topic-partition.<hex>-future` is a copy in progress (`log_move.py`, `log_copy.py`), and
`topic-partition.<hex>-stray`, as in Apache Kafka, a folder whose topic is unknown: it is kept but
not served.

A folder whose name does not match one of these forms exactly is not ours.
"""

from __future__ import annotations

import re
from typing import Final
from uuid import uuid4

DELETE_SUFFIX: Final = "-delete"
FUTURE_SUFFIX: Final = "-future"
STRAY_SUFFIX: Final = "-stray"
_NAME_MAX: Final = 255
_INDEX_MAX: Final = 2**31 - 1
_LIVE: Final = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]{0,9})")
_LEFT: Final = re.compile(
    rf"{_LIVE.pattern}\.[0-9a-f]{{32}}({DELETE_SUFFIX}|{FUTURE_SUFFIX}|{STRAY_SUFFIX})"
)


def directory_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_directory_name(name: str) -> tuple[str, int] | None:
    """Topic and partition; None if it is not the folder of a live partition."""
    found = _LIVE.fullmatch(name)
    if found is None or int(found[2]) > _INDEX_MAX:
        return None
    return found[1], int(found[2])


def resembles_partition_folder(name: str) -> bool:
    """Whether a name could be mistaken for that of a partition's folder."""
    _, dash, partition = name.rpartition("-")
    return bool(dash) and partition.isdigit() and parse_directory_name(name) is None


def has_suffix(name: str, suffix: str) -> bool:
    """Whether this is a name that a broker gives to folders with this suffix."""
    found = _LEFT.fullmatch(name)
    return found is not None and found[3] == suffix


def deleted_directory_name(topic: str, partition: int) -> str:
    """A name for a deleted folder, which no topic can have; long topic names are cut."""
    return _unique_name(topic, partition, DELETE_SUFFIX)


def stray_directory_name(topic: str, partition: int) -> str:
    """A name like `deleted_directory_name`, for a folder that is kept."""
    return _unique_name(topic, partition, STRAY_SUFFIX)


def future_directory_name(topic: str, partition: int) -> str:
    """A name like `deleted_directory_name`, for a copy in progress."""
    return _unique_name(topic, partition, FUTURE_SUFFIX)


def _unique_name(topic: str, partition: int, ending: str) -> str:
    suffix = f"-{partition}.{uuid4().hex}{ending}"
    return topic[: _NAME_MAX - len(suffix)] + suffix
