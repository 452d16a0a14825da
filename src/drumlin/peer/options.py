"""Options of connections to brokers: client id, time limits, back-off, security."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from drumlin.peer.security.security import Security

Isolation = Literal["read_uncommitted", "read_committed"]

ISOLATION_LEVELS: Final[dict[Isolation, int]] = {"read_uncommitted": 0, "read_committed": 1}


@dataclass(frozen=True, slots=True)
class PeerOptions:
    """Options with the names and values of Kafka's clients.

    `request_timeout_ms` limits a single request, `call_timeout_ms` a call with all of its retries:
    Kafka's `default.api.timeout.ms`. A call survives a hanging broker only if its limit is higher;
    by default the two are equal.
    """

    client_id: str = "drumlin"
    request_timeout_ms: int = 30_000
    call_timeout_ms: int | None = None
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 50
    retry_backoff_max_ms: int = 1_000
    client_rack: str = ""  # the rack of this client, which may read from a replica there (KIP-392)
    security: Security = field(default_factory=Security)

    @property
    def patience_ms(self) -> int:
        """The time limit of a call with all of its retries."""
        return self.request_timeout_ms if self.call_timeout_ms is None else self.call_timeout_ms
