"""The resources that a broker of a machine gets from the process that starts it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumlin.broker.login.machine_secret import MachineSecret
    from drumlin.metadata.store.store import MetadataStore


@dataclass(frozen=True, slots=True)
class SharedMachine:
    """See the module. The starting process also serves the operator, and metrics, for all
    brokers."""

    #: Opens the metadata store that the brokers share.
    open_metadata: Callable[[], Awaitable[MetadataStore]]
    #: Descriptors that already lock the broker's log dirs, by path.
    locks: Mapping[str, int]
    secret: MachineSecret
