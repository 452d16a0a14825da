"""The led partitions of topics, for a request that names topics by bytes.

Produce and Fetch find them at each pass, right before they append or read: so a right that was
taken meanwhile is missed there, whatever they have waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from drumlin.replication.partition import Partition
    from drumlin.replication.partition_registry import PartitionRegistry

#: The partitions by index.
LedOf: TypeAlias = "Callable[[bytes], Mapping[int, Partition]]"
_NONE: Final[Mapping[int, Partition]] = MappingProxyType({})


def led_topics(
    registry: PartitionRegistry, may: Callable[[str], bool] | None, *, by_id: bool
) -> LedOf:
    """The lookup of a topic's led partitions, by its name or id.

    It finds none of a topic that `may` denies, as if none were led here; whoever asks why says so.
    """
    led_of = registry.of_id if by_id else registry.of_name
    if may is None:
        return led_of

    def allowed(topic: bytes) -> Mapping[int, Partition]:
        found = led_of(topic)
        for partition in found.values():  # the name is the same in all
            return found if may(partition.topic) else _NONE
        return found

    return allowed
