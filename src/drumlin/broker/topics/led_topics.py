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


def led_topics(
    broker: BrokerData,
    may: Callable[[str], bool] | None,
    known: Mapping[str, bool] = MappingProxyType({}),
    *,
    by_id: bool,
) -> LedOf:
    """The lookup of a topic's led partitions, by its name or id.

    It finds none of a topic that `may` denies, as if none were led here; whoever asks why says so.
    `known`: what `may` has said before. A topic that is not among them is asked about once, and
    anew when an ACL has changed.
    """
    registry, authorizer = broker.partitions, broker.authorizer
    led_of = registry.of_id if by_id else registry.of_name
    if may is None or authorizer is None:
        return led_of
    asked: dict[str, tuple[int, bool]] = {}  # by name: the version of the ACLs, and the answer

    def allowed(topic: bytes) -> Mapping[int, Partition]:
        found = led_of(topic)
        if not found:
            return found
        name = next(iter(found.values())).topic  # the same in all partitions
        if known.get(name):
            return found
        answer = asked.get(name)
        if answer is None or answer[0] != authorizer.version:
            answer = asked[name] = authorizer.version, may(name)
        return found if answer[1] else _NONE

    return allowed
