"""Topic-partitions and their offsets, as values and as the JSON that Spark's Kafka source uses.

The JSON form `{"topic": {"0": 123}}` is what users write in options and what a streaming query
keeps in its checkpoint; Spark calls one such object an offset. It never changes: old checkpoints
must stay readable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

LATEST: Final = -1
EARLIEST: Final = -2


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """Where a read starts or ends: one value for every partition, or one for each.

    A value is an offset (`EARLIEST` and `LATEST` included) or, if `is_timestamp`, milliseconds
    since the Unix epoch: then it means the first record that is not older.
    """

    value: int | Mapping[TopicPartition, int]
    is_timestamp: bool = False

    def values(self) -> list[int]:
        return [self.value] if isinstance(self.value, int) else list(self.value.values())


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The checkpoint's form, sorted, so that equal offsets give equal text."""
    form: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        form.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return form


def from_json(form: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """The inverse of `to_json`.

    Raises:
        ValueError: not of that form.
    """
    if not isinstance(form, Mapping):
        raise ValueError(f"not a map of topics: {form!r}")
    return {
        TopicPartition(topic, int(partition)): _integer(value)
        for topic, partitions in form.items()
        for partition, value in dict(partitions).items()
    }


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Offsets (or timestamps) that a user wrote as JSON.

    Raises:
        ValueError: not of that form.
    """
    try:
        return from_json(json.loads(text))
    except (TypeError, ValueError):
        raise ValueError(
            f'expected e.g. {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got {text}'
        ) from None


def parse_partitions(text: str) -> tuple[TopicPartition, ...]:
    """Topic-partitions that a user wrote as JSON: `{"topicA": [0, 1]}`.

    Raises:
        ValueError: not of that form.
    """
    try:
        return tuple(
            TopicPartition(topic, _integer(partition))
            for topic, partitions in json.loads(text).items()
            for partition in partitions
        )
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f'expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}') from None


def _integer(value: Any) -> int:
    if type(value) is not int:  # a bool is an int, but no offset
        raise ValueError(f"not an integer: {value!r}")
    return value
