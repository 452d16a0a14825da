"""Limits on the rate of new connections (KIP-612). Pure.

- The broker and each listener have a limit: when it is reached, the next connection is accepted
  later. The inter-broker listener, if it is not the only one, has only its own limit.
- An IP address may have a limit: a connection that exceeds it is accepted, and closed after some
  time; if it were closed at once, its client would connect again at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drumlin.addresses import plain_address
from drumlin.broker.quotas.limits import Other
from drumlin.broker.quotas.rate import SampledRate, Window
from drumlin.broker.quotas.untold import Tell
from drumlin.broker.quotas.usages import Usages

UNLIMITED: Final = 2**31 - 1
#: The name of the broker's own limit among those of listeners.
BROKER: Final = ""


class ConnectionRates:
    """The limits, and the rates of new connections."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._rates: dict[str, tuple[float, SampledRate]] = {}
        self._exempt: str | None = None
        self._of_addresses: dict[str | None, float] = {}
        self.usages = Usages(SampledRate, window)  # of addresses
        #: Takes how many come from an address, if other brokers count them, too.
        self.tell: Tell | None = None

    def limit(self, rates: Mapping[str, float], exempt: str | None = None) -> None:
        """Set the limits of the broker and of listeners, by name.

        exempt: the listener that has only its own limit, and not the broker's.
        """
        self._exempt = exempt
        kept = self._rates
        self._rates = {
            name: (rate, kept[name][1] if name in kept else SampledRate())
            for name, rate in rates.items()
            if rate < UNLIMITED
        }

    def put(self, address: str | None, rate: float | None) -> None:
        """Set the limit of an address; None as the address sets the default, None as the rate
        removes the limit.
        """
        key = None if address is None else plain_address(address)
        if rate is None:
            self._of_addresses.pop(key, None)
        else:
            self._of_addresses[key] = rate

    def pause_ms(self, listener: str, now_ms: int) -> int:
        """Count a connection; returns the time for which the listener may accept no other."""
        pause_ms = 0
        for name in (listener,) if listener == self._exempt else (BROKER, listener):
            if name in self._rates:
                bound, rate = self._rates[name]
                pause_ms = max(pause_ms, self._counted(rate, bound, now_ms))
        return pause_ms

    def delay_ms(self, address: str, now_ms: int) -> int:
        """Count a connection from an address; returns the time after which to close it, or 0 if it
        is within the limit.
        """
        limits = self._of_addresses
        if not limits:
            return 0
        plain = plain_address(address)
        bound = limits.get(plain, limits.get(None))
        if bound is None:
            return 0
        owner = (Other.NONE, plain)
        rate = self.usages.of(owner, now_ms)
        delay_ms = self._counted(rate, bound, now_ms)
        if delay_ms:
            rate.record(self._window, -1, now_ms)
        elif self.tell is not None:
            self.tell(owner, 1, bound)
        return delay_ms

    def _counted(self, rate: SampledRate, bound: float, now_ms: int) -> int:
        rate.record(self._window, 1, now_ms)
        return min(rate.throttle_ms(self._window, bound, now_ms), self._window.sample_ms)
