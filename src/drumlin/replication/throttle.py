"""How much of a broker's replication may be spent on replicas that catch up (KIP-73). Pure.

A rate holds for the partitions that a topic's configuration lists, and only while the replica lacks
records: those in sync are never held back. Leader and follower each have a `Throttle`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from drumlin.config.topic import LogConfig
    from drumlin.storage.log.partition_log import PartitionLog

UNLIMITED: Final = 2**63 - 1
_ALL: Final = "*"
#: What was not used up of so much time may be spent at once.
_SAVED_S: Final = 1.0


class Quota:
    """Bytes per second. Who is allowed to go on may use up more than is left: others wait longer.

    rate: may change at any time.
    """

    def __init__(self, rate: Callable[[], float], now_s: Callable[[], float]) -> None:
        self._rate = rate
        self._now_s = now_s
        self._seen_s = now_s()
        self._left: float | None = None

    def wait_s(self) -> float:
        """How long to wait before anything more may be used; 0: go on."""
        rate = self._rate()
        left = self._refill(rate)
        if left > 0:
            return 0.0
        return -left / rate if left < 0 < rate else _SAVED_S

    def use(self, size: int) -> None:
        """So many bytes have been used."""
        self._left = self._refill(self._rate()) - size

    def _refill(self, rate: float) -> float:
        now_s = self._now_s()
        passed_s, self._seen_s = now_s - self._seen_s, now_s
        most = rate * _SAVED_S
        left = most if self._left is None else min(most, self._left + passed_s * rate)
        self._left = left
        return left


class Throttle:
    """One side's: the leader's, or the follower's.

    listed: the replicas that a topic's configuration names, as `PARTITION:BROKER`, or `*`.
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
        """How long a replica that lacks records has to wait for more of them."""
        return self._quota.wait_s() if self._holds_for(log) else 0.0

    def used(self, log: PartitionLog, size: int) -> None:
        """So many bytes were sent from a log, or have come for it."""
        if size and self._holds_for(log):
            self._quota.use(size)

    def _holds_for(self, log: PartitionLog) -> bool:
        listed = self._listed(log.config)
        if not listed or self._rate() == UNLIMITED:
            return False
        return _ALL in listed or f"{log.partition}:{self._node_id}" in listed
