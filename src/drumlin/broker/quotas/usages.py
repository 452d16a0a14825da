"""The usage of one kind, for each group of clients that share a limit. Pure.

A client can use any number of client ids. So a usage is forgotten an hour after its last change, as
in Kafka; and if there are too many, the one whose last change is the oldest is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from drumlin.broker.quotas.limits import Owner, shortened
from drumlin.broker.quotas.rate import Window
from drumlin.broker.quotas.untold import Used

_EXPIRES_MS: Final = 3_600_000
_KEPT_MAX: Final = 20_000


class Usage(Protocol):
    """The usage of those who share a limit."""

    def hear(self, window: Window, used: Used, now_ms: int) -> None:
        """Count what was used at another broker."""


T = TypeVar("T", bound=Usage)


class Usages(Generic[T]):
    """The usage of each owner, created on its first use."""

    def __init__(self, make: Callable[[], T], window: Window) -> None:
        self._make, self._window = make, window
        self._kept: dict[Owner, tuple[T, int]] = {}  # the least recently used first

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, owner: Owner, now_ms: int) -> T:
        """The usage of an owner, which is about to change."""
        kept = self._kept
        key = shortened(owner)
        found = kept.pop(key, None)
        usage = self._make() if found is None else found[0]
        kept[key] = usage, now_ms
        oldest = next(iter(kept))
        if len(kept) > _KEPT_MAX or now_ms - kept[oldest][1] >= _EXPIRES_MS:
            del kept[oldest]
        return usage

    def hear(self, used: Used, now_ms: int) -> None:
        """Count what was used at another broker."""
        self.of(used.owner, now_ms).hear(self._window, used, now_ms)
