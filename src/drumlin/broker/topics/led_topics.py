"""The led partitions of topics, for a request that names topics by bytes.

Produce and Fetch find them at each pass, right before they append or read: so a right that was
taken meanwhile is missed there, whatever they have waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from drumlin.broker.parts.parts import BrokerData
    from drumlin.replication.partition import Partition

#: The partitions by index.
LedOf: TypeAlias = "Callable[[bytes], Mapping[int, Partition]]"
_NONE: Final[Mapping[int, Partition]] = MappingProxyType({})


def led_topics(broker: BrokerData, may: Callable[[str], bool] | None, *, by_id: bool) -> LedOf:
    """The lookup of a topic's led partitions, by its name or id.

    It finds none of a topic that `may` denies, as if none were led here; whoever asks why says so.
    A topic is asked about once, and anew when an ACL has changed.
    """
    registry, authorizer = broker.partitions, broker.authorizer
    led_of = registry.of_id if by_id else registry.of_name
    if may is None or authorizer is None:
        return led_of
    rights: dict[bytes, bool] = {}
    version = authorizer.version

    def allowed(topic: bytes) -> Mapping[int, Partition]:
        nonlocal version
        found = led_of(topic)
        if not found:
            return found
        if version != authorizer.version:
            rights.clear()
            version = authorizer.version
        is_allowed = rights.get(topic)
        if is_allowed is None:  # the name is the same in all partitions
            is_allowed = rights[topic] = may(next(iter(found.values())).topic)
        return found if is_allowed else _NONE

    return allowed
