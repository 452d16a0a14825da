"""What a broker is given that is one of several on its machine, by the process that started it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumlin.metadata.store.store import MetadataStore


@dataclass(frozen=True, slots=True)
class Company:
    """See the module; one operator's socket and one address for metrics serve all of them."""

    #: The store that they share.
    open_metadata: Callable[[], Awaitable[MetadataStore]]
    #: Descriptors that lock its log dirs already, by path.
    locks: Mapping[str, int]
