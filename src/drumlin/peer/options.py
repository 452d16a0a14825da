"""How a peer behaves towards brokers: names, limits of time, back-off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Isolation = Literal["read_uncommitted", "read_committed"]

ISOLATION_LEVELS: Final[dict[Isolation, int]] = {"read_uncommitted": 0, "read_committed": 1}


@dataclass(frozen=True, slots=True)
class PeerOptions:
    """Names and values as in Kafka's clients."""

    client_id: str = "drumlin"
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 50
    retry_backoff_max_ms: int = 1_000
