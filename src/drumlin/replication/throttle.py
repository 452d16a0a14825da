"""Replication quotas (KIP-73): the rate at which replicas may catch up. Pure.

A rate applies to replicas listed in the topic's configuration, while these lack records: in-sync
replicas are never throttled. Leader and follower each have a `Throttle`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from drumlin.config.topic import LogConfig
from drumlin.storage.log.partition_log import PartitionLog

UNLIMITED: Final = 2**63 - 1
_ALL: Final = "*"
#: The largest burst: an unused quota can be saved up for this long.
_SAVED_S: Final = 1.0


class Quota:
    """A rate in bytes per second. One use may exceed the rest; the next ones then wait longer.

    rate: called at each use, as it may change at any time.
    """

    def __init__(self, rate: Callable[[], float], now_s: Callable[[], float]) -> None:
        self._rate = rate
        self._now_s = now_s
        self._seen_s = now_s()
        self._left: float | None = None

    def wait_s(self) -> float:
        """The time until more may be used; 0 if some of the quota is left."""
        rate = self._rate()
        left = self._refill(rate)
        if left > 0:
            return 0.0
        return -left / rate if left < 0 < rate else _SAVED_S

    def use(self, size: int) -> None:
        """Count bytes as used."""
        self._left = self._refill(self._rate()) - size

    def _refill(self, rate: float) -> float:
        now_s = self._now_s()
        passed_s, self._seen_s = now_s - self._seen_s, now_s
        most = rate * _SAVED_S
        left = most if self._left is None else min(most, self._left + passed_s * rate)
        self._left = left
        return left


class Throttle:
    """The replication quota of the leader's side or of the follower's.

    listed: the throttled replicas of a topic's configuration, as `PARTITION:BROKER`, or `*`.
    """

    def __init__(
        self,
        node_id: int,
        rate: Callable[[], float],
        listed: Callable[[LogConfig], frozenset[str]],
        now_s: Callable[[], float],
    ) -> None:
        self._node_id = node_id
        self._rate = rate
        self._listed = listed
        self._quota = Quota(rate, now_s)

    def wait_s(self, log: PartitionLog) -> float:
        """The time to wait before the next records are sent to, or fetched by, a replica that lacks
        records.
        """
        return self._quota.wait_s() if self._holds_for(log) else 0.0

    def used(self, log: PartitionLog, size: int) -> None:
        """Count bytes that were sent from a log, or received for it."""
        if size and self._holds_for(log):
            self._quota.use(size)

    def _holds_for(self, log: PartitionLog) -> bool:
        listed = self._listed(log.config)
        if not listed or self._rate() == UNLIMITED:
            return False
        return _ALL in listed or f"{log.partition}:{self._node_id}" in listed
