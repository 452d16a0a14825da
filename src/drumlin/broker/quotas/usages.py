"""The usage of one kind, for each group of clients that share a limit. Pure.

A client can use any number of client ids. So a usage is forgotten an hour after its last change, as
in Kafka; and if there are too many, the one whose last change is the oldest is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final, Generic, TypeVar

from drumlin.broker.quotas.limits import Other, Owner

_EXPIRES_MS: Final = 3_600_000
_KEPT_MAX: Final = 20_000
#: Longer names are replaced by their hash.
_NAME_MAX: Final = 256

T = TypeVar("T")


class Usages(Generic[T]):
    """The usage of each owner, created on its first use."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
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


def shortened(owner: Owner) -> Owner:
    """An owner by names that are not long."""
    return _short(owner[0]), _short(owner[1])


def _short(name: str | Other) -> str | Other:
    if isinstance(name, Other) or len(name) <= _NAME_MAX:
        return name
    return "\0" + blake2b(name.encode(errors="surrogatepass"), digest_size=32).hexdigest()
