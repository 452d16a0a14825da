"""The instances of clients that ask for subscriptions, and when each may ask and push. Pure.

An instance that is not heard of for three of its intervals is forgotten, as the one not heard of
for the longest is when there are too many: a client can make any number of instance ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import crc32c

from drumlin.broker.telemetry.subscriptions import Client, Wanted
from drumlin.wire.error_codes import ErrorCode, KafkaError

INSTANCES_MAX: Final = 16_384
_INTERVALS_KEPT: Final = 3
_KEPT_S_MIN: Final = 60.0
_LONG_AGO_S: Final = float("-inf")
#: After these errors of a push a client may ask at once what it has to do.
_MAY_ASK_AFTER: Final = (ErrorCode.unknown_subscription_id, ErrorCode.unsupported_compression_type)


@dataclass(slots=True)
class Instance:
    """One instance of a client."""

    client: Client
    wanted: Wanted
    #: The version of the subscriptions by which that was found.
    version: int
    subscription_id: int
    heard_s: float
    asked_s: float = _LONG_AGO_S
    pushed_s: float = _LONG_AGO_S
    last_error: ErrorCode = ErrorCode.none
    is_terminating: bool = False

    @property
    def kept_s(self) -> float:
        """How long it is remembered after it was heard of."""
        return max(_INTERVALS_KEPT * self._interval_s, _KEPT_S_MIN)

    @property
    def _interval_s(self) -> float:
        return self.wanted.interval_ms / 1000

    def ask(self, now_s: float) -> None:
        """Note that the client asks for its subscription.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED: it has asked or pushed a moment ago.
        """
        if now_s - max(self.asked_s, self.pushed_s) >= self._interval_s:
            self.asked_s = now_s
        elif self.last_error not in _MAY_ASK_AFTER:
            raise KafkaError(ErrorCode.throttling_quota_exceeded)

    def push(self, now_s: float, subscription_id: int, *, is_last: bool) -> None:
        """Note that the client pushes; its first push may follow its question at once.

        Raises:
            KafkaError: it comes too early, after the last one, or by another subscription.
        """
        was_terminating = self.is_terminating
        self.is_terminating = is_last
        if was_terminating:
            raise KafkaError(ErrorCode.invalid_request)
        if self.asked_s > self.pushed_s or now_s - self.pushed_s >= self._interval_s:
            self.pushed_s = now_s
        elif not is_last:
            raise KafkaError(ErrorCode.throttling_quota_exceeded)
        if subscription_id != self.subscription_id:
            raise KafkaError(ErrorCode.unknown_subscription_id)


class Instances:
    """All instances, the one heard of last at the end."""

    def __init__(self) -> None:
        self._known: dict[UUID, Instance] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, instance_id: UUID, version: int, now_s: float) -> Instance | None:
        """The instance, if what is wanted of it is known for this version."""
        found = self._known.get(instance_id)
        if found is None or found.version != version:
            return None
        self._keep(instance_id, found, now_s)
        return found

    def known_client(self, instance_id: UUID) -> Client | None:
        """The client as it was known when it was first heard of."""
        found = self._known.get(instance_id)
        return None if found is None else found.client

    def put(
        self, instance_id: UUID, client: Client, wanted: Wanted, version: int, now_s: float
    ) -> Instance:
        """An instance of which something, perhaps something else, is wanted: it may ask at once."""
        subscription_id = subscription_id_of(instance_id, wanted)
        made = Instance(client, wanted, version, subscription_id, now_s)
        self._keep(instance_id, made, now_s)
        return made

    def _keep(self, instance_id: UUID, instance: Instance, now_s: float) -> None:
        self._known.pop(instance_id, None)
        self._known[instance_id] = instance
        instance.heard_s = now_s
        for over in list(self._over(now_s)):
            del self._known[over]

    def _over(self, now_s: float) -> Iterator[UUID]:
        """Of the two oldest those that are to be forgotten."""
        for number, (instance_id, each) in enumerate(self._known.items()):
            if number == 2:  # a few with each that comes, so that nothing takes long
                return
            if len(self._known) > INSTANCES_MAX or now_s - each.heard_s > each.kept_s:
                yield instance_id


def subscription_id_of(instance_id: UUID, wanted: Wanted) -> int:
    """The same number at each broker, as a client may push to another one than it has asked."""
    text = "\0".join((str(wanted.interval_ms), *wanted.metrics))
    mixed = crc32c.crc32c(text.encode(), crc32c.crc32c(instance_id.bytes))
    return mixed - (1 << 32) if mixed >> 31 else mixed
