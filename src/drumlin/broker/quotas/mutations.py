"""The quota on changes of the metadata: partitions created and deleted (KIP-599). Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from drumlin.broker.quotas.limits import ClientLimits, Limit
from drumlin.broker.quotas.rate import Window
from drumlin.broker.quotas.token_bucket import TokenBucket
from drumlin.broker.quotas.untold import Tell
from drumlin.broker.quotas.usages import Usages
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO


class MutationQuota:
    """The limits, and the usage under each."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.limits = ClientLimits()
        self.usages = Usages(TokenBucket, window)
        #: Takes what is used here, if other brokers count it, too.
        self.tell: Tell | None = None

    def for_request(
        self, user: str, client_id: str, now_ms: Callable[[], int], *, is_strict: bool
    ) -> Mutations | None:
        """The quota for the changes of a client's request; None if the client has no limit.

        is_strict: whether a change is refused when the quota is used up. Otherwise it is made, and
            the client has to wait afterwards.
        """
        limit = self.limits.find(user, client_id)
        if limit is None:
            return None
        bucket = self.usages.of(limit.shared_by, now_ms())
        return Mutations(bucket, self.window, limit, now_ms, self.tell, is_strict=is_strict)


class Mutations:
    """The quota that the changes of one request use."""

    def __init__(
        self,
        bucket: TokenBucket,
        window: Window,
        limit: Limit,
        now_ms: Callable[[], int],
        tell: Tell | None,
        *,
        is_strict: bool,
    ) -> None:
        self._bucket, self._window, self._limit = bucket, window, limit
        self._now_ms, self._tell = now_ms, tell
        self._is_strict = is_strict
        self._ends_ms = 0

    def take(self, partitions: int) -> None:
        """Count partitions that are about to be created or deleted.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED; the change must not be made.
        """
        now_ms = self._now_ms()
        if self._is_strict and self._owed_ms(now_ms):
            message = "The throttling quota has been exceeded."
            raise KafkaError(ErrorCode.throttling_quota_exceeded, message)
        self._bucket.take(self._window, self._limit.bound, partitions, now_ms)
        if self._tell is not None:
            self._tell(self._limit.shared_by, partitions, self._limit.bound)
        if not self._is_strict:
            self._owed_ms(now_ms)

    def _owed_ms(self, now_ms: int) -> int:
        throttle_ms = self._bucket.throttle_ms(self._window, self._limit.bound, now_ms)
        if throttle_ms:
            self._ends_ms = now_ms + throttle_ms
        return throttle_ms

    def throttle_time(self) -> timedelta:
        """The time for which the client has to wait."""
        return timedelta(milliseconds=max(0, self._ends_ms - self._now_ms()))


def throttle_time_of(mutations: Mutations | None) -> timedelta:
    """The throttle time of a request's answer."""
    return ZERO if mutations is None else mutations.throttle_time()
