"""A quota on a rate: bytes produced or fetched, or time that requests take. Pure."""

from __future__ import annotations

from drumlin.broker.quotas.limits import ClientLimits, Limit
from drumlin.broker.quotas.rate import THROTTLE_MS_MAX, SampledRate, Window
from drumlin.broker.quotas.untold import Tell
from drumlin.broker.quotas.usages import Usages


class RateQuota:
    """The limits of one kind, and the usage under each."""

    def __init__(self, window: Window, *, throttle_ms_max: int = THROTTLE_MS_MAX) -> None:
        self._window = window
        self._throttle_ms_max = throttle_ms_max
        self.limits = ClientLimits()
        self.usages = Usages(SampledRate, window)
        #: Takes what is used here, if other brokers count it, too.
        self.tell: Tell | None = None

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Count a client's usage; returns its throttle time."""
        limit = self.limits.find(user, client_id)
        if limit is None:
            return 0
        usage = self.usages.of(limit.shared_by, now_ms)
        usage.record(self._window, value, now_ms)
        self._note(limit, value)
        return self._throttle_ms(usage, limit.bound, now_ms)

    def admit(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Count the bytes that a client is about to get, unless it has to wait for them.

        Returns the time to wait. An amount larger than the quota of a whole window would have to
        wait for ever, so it is admitted as soon as the window is empty.
        """
        limit = self.limits.find(user, client_id)
        if limit is None:
            return 0
        usage = self.usages.of(limit.shared_by, now_ms)
        used, _ = usage.measure(self._window, now_ms)
        usage.record(self._window, value, now_ms)
        throttle_ms = self._throttle_ms(usage, limit.bound, now_ms)
        if throttle_ms and used > 0:
            usage.record(self._window, -value, now_ms)
            return throttle_ms
        self._note(limit, value)
        return 0

    def overdue_ms(self, user: str, client_id: str, now_ms: int) -> int:
        """The remaining throttle time for a client's earlier usage."""
        return self.record(user, client_id, 0, now_ms)

    def at_once_max(self, user: str, client_id: str) -> float | None:
        """The largest amount that a client with an empty window gets without waiting; None: any."""
        limit = self.limits.find(user, client_id)
        return None if limit is None else limit.bound * self._window.full_ms / 1000

    def _note(self, limit: Limit, value: float) -> None:
        if value and self.tell is not None:
            self.tell(limit.shared_by, value, limit.bound)

    def _throttle_ms(self, usage: SampledRate, bound: float, now_ms: int) -> int:
        return min(usage.throttle_ms(self._window, bound, now_ms), self._throttle_ms_max)
