"""The name of one partition of one topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, SupportsIndex, TypeVar

from drumlin.client import arguments

T = TypeVar("T")


class TopicPartition(NamedTuple):
    """One partition of one topic. The client gives these, and takes plain tuples as well."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


#: What names a partition, as callers have it: one of the above, or a tuple of the two.
AnyPartition = TypeVar("AnyPartition", bound=tuple[str, int])


def as_partitions(places: Iterable[tuple[str, int]]) -> list[TopicPartition]:
    """The same partitions by their names.

    Raises:
        TypeError: one is no topic and a number.
    """
    return [_partition(place) for place in places]


def by_partition(values: Mapping[AnyPartition, T]) -> dict[TopicPartition, T]:
    """The same values, with partitions by their names as keys.

    Raises:
        TypeError: a key is no topic and a number.
    """
    return {_partition(place): value for place, value in values.items()}


def _partition(place: object) -> TopicPartition:
    match place:
        case (str() as topic, SupportsIndex() as partition):
            return TopicPartition(topic, int(partition))
    raise TypeError(f"partition {arguments.shown(place)}: expected (topic, number)")
