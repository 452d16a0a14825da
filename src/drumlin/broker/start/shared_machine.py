"""The metadata and locks that a broker of a machine gets from the process that starts it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumlin.metadata.store.store import MetadataStore


@dataclass(frozen=True, slots=True)
class SharedMachine:
    """See the module. The starting process also serves the operator, and metrics, for all
    brokers."""

    #: Opens the metadata store that they share.
    open_metadata: Callable[[], Awaitable[MetadataStore]]
    #: Descriptors that lock its log dirs already, by path.
    locks: Mapping[str, int]
