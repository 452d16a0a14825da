"""The retry policy of all requests: the errors to retry, and the pauses."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

from drumlin.peer.options import PeerOptions
from drumlin.peer.peer_error import ConnectionLost, RequestTimeout
from drumlin.wire.error_codes import ErrorCode, KafkaError

T = TypeVar("T")

#: Errors of a stale view of the cluster: request metadata before the next attempt.
STALE_METADATA: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.replica_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.not_controller,
    }
)
#: A missing topic may just have been created; if it is still missing after this time, it does not
#: exist.
UNKNOWN_TOPIC_PATIENCE_S: Final = 1.0
#: The same for a topic that a Metadata request creates: brokers answer before it exists, which may
#: take seconds under load. The answers do not show whether brokers create topics at all.
CREATED_TOPIC_PATIENCE_S: Final = 10.0


class Deadline:
    """The time by which something must have happened."""

    __slots__ = ("_at", "_clock")

    def __init__(self, timeout_ms: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = clock() + timeout_ms / 1000

    @property
    def remaining_s(self) -> float:
        return max(self._at - self._clock(), 0.0)

    @property
    def is_over(self) -> bool:
        return self._clock() >= self._at


def backoff_s(options: PeerOptions) -> Iterator[float]:
    """Growing pauses with a jitter of up to 20 %, so that clients do not retry in lockstep."""
    pause_ms = float(options.retry_backoff_ms)
    while True:
        yield pause_ms / 1000 * random.uniform(0.8, 1.2)
        pause_ms = min(pause_ms * 2, options.retry_backoff_max_ms)


def is_retriable(error: BaseException) -> bool:
    """Whether the request may succeed if it is sent again, perhaps to another broker."""
    if isinstance(error, KafkaError):
        return bool(error.code.retriable) or error.code in STALE_METADATA
    return isinstance(error, ConnectionLost | RequestTimeout)


def is_stale_metadata(error: BaseException) -> bool:
    """Whether the error means that our view of leaders, topics or brokers is stale."""
    if isinstance(error, KafkaError):
        return error.code in STALE_METADATA
    return isinstance(error, ConnectionLost | RequestTimeout)


class _Patience:
    """The time limits of one call. The limit for a missing topic starts with the first answer that
    reports it, as that answer may have taken long.
    """

    def __init__(self, deadline: Deadline, missing_s: float) -> None:
        self._deadline = deadline
        self._missing_s = missing_s
        self._missing: Deadline | None = None

    def is_left(self, error: BaseException) -> bool:
        """Whether there is time for another attempt after `error`."""
        if self._deadline.is_over or not is_retriable(error):
            return False
        if isinstance(error, KafkaError) and error.code is ErrorCode.unknown_topic_or_partition:
            self._missing = self._missing or Deadline(self._missing_s * 1000)
            return not self._missing.is_over
        return True


async def retrying(
    attempt: Callable[[], Awaitable[T]],
    *,
    deadline: Deadline,
    options: PeerOptions,
    before_retry: Callable[[BaseException], Awaitable[None]],
    missing_s: float = UNKNOWN_TOPIC_PATIENCE_S,
) -> T:
    """Retry `attempt` until it succeeds, fails for good, or the time is over; raises its last
    error.

    `before_retry` refreshes a stale view of the cluster; if that fails with a transient error, it
    counts as one more failed attempt. `missing_s`: the time for which a topic may be missing.
    """
    patience = _Patience(deadline, missing_s)
    for pause_s in backoff_s(options):
        try:
            return await attempt()
        except Exception as error:
            if not patience.is_left(error):
                raise
            await asyncio.sleep(min(pause_s, deadline.remaining_s))
            try:
                await before_retry(error)
            except Exception as refresh_error:
                if not patience.is_left(refresh_error):
                    raise
    raise AssertionError("back-off never ends")
