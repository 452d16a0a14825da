"""How a peer behaves towards brokers: names, limits of time, back-off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from drumlin.peer.security.security import Security

Isolation = Literal["read_uncommitted", "read_committed"]

ISOLATION_LEVELS: Final[dict[Isolation, int]] = {"read_uncommitted": 0, "read_committed": 1}


@dataclass(frozen=True, slots=True)
class PeerOptions:
    """Names and values as in Kafka's clients.

    `request_timeout_ms` is how long one answer may take, `call_timeout_ms` how long a call may
    retry: Kafka's `default.api.timeout.ms`. A call survives a broker that hangs only if the second
    is longer; by default the two are equal.
    """

    client_id: str = "drumlin"
    request_timeout_ms: int = 30_000
    call_timeout_ms: int | None = None
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 50
    retry_backoff_max_ms: int = 1_000
    client_rack: str = ""  # where this client is: it may then read from a replica near it (KIP-392)
    security: Security = field(default_factory=Security)

    @property
    def patience_ms(self) -> int:
        """How long to retry."""
        return self.request_timeout_ms if self.call_timeout_ms is None else self.call_timeout_ms
