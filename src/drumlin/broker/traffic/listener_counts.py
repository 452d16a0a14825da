"""Counts of one listener: its connections, and the requests on them."""

from __future__ import annotations

from typing import Final

from drumlin.broker.traffic.request_counts import ApiCounts
from drumlin.wire.apis import NAMES

_KEYS_END: Final = max(NAMES) + 1


class ListenerCounts:
    """What has happened at one listener since the broker's start."""

    __slots__ = (
        "_apis",
        "_other",
        "closed",
        "failed_handshakes",
        "failed_logins",
        "logins",
        "opened",
        "received_bytes",
        "refused",
        "sent_bytes",
    )

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.refused = 0
        self.logins = 0
        self.failed_logins = 0
        self.failed_handshakes = 0
        #: Bytes of connections that are closed; the open ones have their own counts.
        self.received_bytes = 0
        self.sent_bytes = 0
        self._other = ApiCounts()
        self._apis = [ApiCounts() if key in NAMES else self._other for key in range(_KEYS_END)]

    def left(self, received_bytes: int, sent_bytes: int) -> None:
        """Count the bytes of a connection that closes."""
        self.received_bytes += received_bytes
        self.sent_bytes += sent_bytes

    def of_key(self, api_key: int) -> ApiCounts:
        """The counts of an API."""
        return self._apis[api_key] if 0 <= api_key < _KEYS_END else self._other

    def of_frame(self, frame: memoryview) -> ApiCounts:
        """The counts of the API of a request. A token of a login without headers has none."""
        if len(frame) < 2 or frame[0] or frame[1] >= _KEYS_END:
            return self._other
        return self._apis[frame[1]]

    def by_name(self) -> dict[str, ApiCounts]:
        """The counts of each API that was requested."""
        return {
            name: self._apis[key]
            for key, name in NAMES.items()
            if self._apis[key].requests or self._apis[key].errors
        }
