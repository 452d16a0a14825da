"""The identity of a partition: its topic and its number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, SupportsIndex, TypeVar

from drumlin.client import arguments

T = TypeVar("T")


class TopicPartition(NamedTuple):
    """One partition of one topic. The client returns these, and accepts plain tuples as well."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


#: A partition as an argument: a `TopicPartition`, or a tuple (topic, partition).
AnyPartition = TypeVar("AnyPartition", bound=tuple[str, int])


def as_partitions(places: Iterable[tuple[str, int]]) -> list[TopicPartition]:
    """The partitions as `TopicPartition`s.

    Raises:
        TypeError: a partition is not (topic, number).
    """
    return [_partition(place) for place in places]


def by_partition(values: Mapping[AnyPartition, T]) -> dict[TopicPartition, T]:
    """The mapping with `TopicPartition`s as keys.

    Raises:
        TypeError: a key is not (topic, number).
    """
    return {_partition(place): value for place, value in values.items()}


def _partition(place: object) -> TopicPartition:
    match place:
        case (str() as topic, SupportsIndex() as partition):
            return TopicPartition(topic, int(partition))
    raise TypeError(f"partition {arguments.shown(place)}: expected (topic, number)")
