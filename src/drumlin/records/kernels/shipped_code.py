"""Machine code that goes with a plan to other hosts, so that no worker has to compile.

The driver of a query sends what its own cache has, without loading any of it. A worker takes what
was made of the same sources for a processor of the same name and features as its own, and has
arrived whole; in all other cases it does as if nothing had been sent.
"""

from __future__ import annotations

import functools
import zlib
from importlib.metadata import PackageNotFoundError
from typing import Final, NamedTuple

from drumlin.records.kernels import cache

_SENT_MAX: Final = 4  # a cache on a shared disk may have them for several kinds of processors


class ShippedCode(NamedTuple):
    """Kernels for some kinds of processors, compressed, with their digests."""

    sources: str
    objects: dict[str, bytes]
    set_name: str = "kernels"

    def find(self) -> bytes | None:
        """The machine code for this processor, if it is there."""
        if self.sources != cache.sources_key() or not self.objects:
            return None
        packed = self.objects.get(cache.processor_key())
        try:
            return None if packed is None else cache.unseal(zlib.decompress(packed))
        except zlib.error:
            return None


#: What there is to bring where nothing was sent.
NO_CODE: Final = ShippedCode("", {})


def pack(set_name: str = "kernels") -> ShippedCode:
    """What the cache of this host has of a set."""
    try:
        newest = sorted(cache.kept(set_name), key=lambda each: each.made_at)[-_SENT_MAX:]
    except (OSError, PackageNotFoundError):  # nothing can have been compiled here
        newest = []
    objects = {each.processor: _packed(each.code) for each in newest}
    return ShippedCode(cache.sources_key(), objects, set_name)


@functools.lru_cache(maxsize=_SENT_MAX)
def _packed(code: bytes) -> bytes:
    """The same process plans every micro-batch of a query."""
    return zlib.compress(cache.seal(code))
