"""The led partitions of topics, for a request that names topics by bytes.

Produce and Fetch look them up in each pass, right before they append or read. So a request that has
waited notices there that a right was revoked meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from drumlin.broker.rights.acls import Kind
from drumlin.broker.rights.audit import AUDIT

if TYPE_CHECKING:
    from drumlin.broker.parts.parts import BrokerData
    from drumlin.broker.rights.acls import Operation
    from drumlin.broker.rights.session import Session
    from drumlin.replication.partition import Partition

#: The partitions by index.
LedOf: TypeAlias = "Callable[[bytes], Mapping[int, Partition]]"
_NONE: Final[Mapping[int, Partition]] = MappingProxyType({})
_NO_TOPICS: Final[AbstractSet[bytes]] = frozenset()


class Asking(Protocol):
    """The part of a request's context that checks the principal's rights."""

    @property
    def broker(self) -> BrokerData: ...
    @property
    def session(self) -> Session: ...
    def may(self, operation: Operation, kind: Kind, name: str) -> bool: ...
    def sees(self, operation: Operation, kind: Kind, name: str) -> bool: ...


def led_topics(context: Asking, operation: Operation, *, by_id: bool) -> LedOf:
    """The lookup of a topic's led partitions, by its name or id.

    If the principal may not do `operation` on a topic, no partitions are found, as if this broker
    led none; the caller then finds out the reason, which is audited. What is allowed is noted for
    the session's later requests, until an ACL changes.
    """
    registry, authorizer = context.broker.partitions, context.broker.authorizer
    led_of = registry.of_id if by_id else registry.of_name
    if authorizer is None:
        return led_of
    use = context.session, operation, by_id
    known = _NO_TOPICS if AUDIT.tells_allowed else authorizer.allowed_topics(use)

    def allowed(topic: bytes) -> Mapping[int, Partition]:
        found = led_of(topic)
        if topic in known or not found:
            return found
        name = next(iter(found.values())).topic  # the same in all partitions
        if not context.sees(operation, Kind.TOPIC, name):
            return _NONE
        if AUDIT.tells_allowed:
            context.may(operation, Kind.TOPIC, name)
        else:
            authorizer.note_allowed(use, topic)
        return found

    return allowed


def led_to_followers(context: Asking, may: Callable[[], bool], *, by_id: bool) -> LedOf:
    """Like `led_topics`, for a follower: a single right gives access to all topics."""
    registry, authorizer = context.broker.partitions, context.broker.authorizer
    led_of = registry.of_id if by_id else registry.of_name
    if authorizer is None:
        return led_of
    asked: tuple[int, bool] | None = None  # the version of the ACLs, and the answer

    def allowed(topic: bytes) -> Mapping[int, Partition]:
        nonlocal asked
        if asked is None or asked[0] != authorizer.version:
            asked = authorizer.version, may()
        return led_of(topic) if asked[1] else _NONE

    return allowed
