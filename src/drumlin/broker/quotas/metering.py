"""Metering: counts the usage of requests, and throttles clients that exceed their quota.

The answer, with the throttle time, is sent at once; then the connection is not read until the time
has passed (KIP-219). Requests between brokers do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from drumlin.broker.loop.later import Later, LaterParts, Parts
from drumlin.broker.quotas.client_quotas import ClientQuotas, user_of
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.wire.apis import NAMES
from drumlin.wire.messages import RequestHeader, parse_request_header
from drumlin.wire.throttle_times import throttle_ms_in, with_throttle_ms

if TYPE_CHECKING:
    from drumlin.broker.rights.session import Session

_PRODUCE: Final = "produce"
_FETCH: Final = "fetch"
_OF_BROKERS: Final = frozenset(
    {
        "delete_share_group_state",
        "initialize_share_group_state",
        "read_share_group_state",
        "read_share_group_state_summary",
        "write_share_group_state",
        "write_txn_markers",
    }
)
_NS_PER_PERCENT: Final = 10_000_000  # of a second


class Metered(Protocol):
    """The part of a connection that quotas use."""

    session: Session
    #: Whether another broker replicates over this connection.
    is_replicas: bool

    counts: ListenerCounts

    def mute(self, throttle_ms: int) -> None:
        """Read nothing and start no request for this time."""


def metered(
    quotas: ClientQuotas,
    connection: Metered,
    frame: memoryview,
    start: Callable[[], Parts | LaterParts | None],
) -> Parts | LaterParts | None:
    """Start a request by calling `start`; its answer has the throttle time.

    Raises:
        MalformedMessage: raised by `start`, or the frame has no header.
    """
    meter = Meter(quotas, connection, parse_request_header(frame), len(frame))
    if quotas.request_time.limits:
        began_ns = time.thread_time_ns()
        answer = start()
        meter.spent_ns = time.thread_time_ns() - began_ns
    else:
        answer = start()
    if meter.is_exempt:  # for a fetch this is known only once it has started
        return answer
    if not isinstance(answer, Later):
        return meter.charged(answer)
    told: LaterParts = Later(lets_pass=answer.lets_pass, give_up=answer.cancel)

    def settled(answered: LaterParts) -> None:
        try:
            parts = answered.result()
        except Exception as error:  # noqa: BLE001  the connection handles it
            told.settle(None, error)
        else:
            told.settle(meter.charged(parts))

    answer.when_settled(settled)
    return told


class Meter:
    """The usage of one request."""

    __slots__ = ("_api", "_connection", "_frame_bytes", "_header", "_quotas", "spent_ns")

    def __init__(
        self,
        quotas: ClientQuotas,
        connection: Metered,
        header: RequestHeader,
        frame_bytes: int,
    ) -> None:
        self._quotas, self._connection = quotas, connection
        self._header = header
        self._frame_bytes = frame_bytes
        self._api = NAMES.get(header.api_key, "")
        self.spent_ns = 0

    @property
    def is_exempt(self) -> bool:
        if self._api == _FETCH:
            return self._connection.is_replicas
        return self._api in _OF_BROKERS

    def charged(self, parts: Parts | None) -> Parts | None:
        """Count the request, and mute the connection if its client has exceeded a quota. Returns
        the answer with the throttle time; None if the request has no answer.
        """
        quotas, header = self._quotas, self._header
        client = user_of(self._connection.session.principal), header.client_id or ""
        now_ms = quotas.now_ms()
        throttle_ms = 0
        if self._api == _PRODUCE:
            throttle_ms = quotas.produced.record(*client, self._frame_bytes, now_ms)
        if parts is None:
            self._mute(throttle_ms, client, now_ms)
            return None
        percent = self.spent_ns / _NS_PER_PERCENT
        throttle_ms = max(throttle_ms, quotas.request_time.record(*client, percent, now_ms))
        told_ms = throttle_ms_in(self._api, header.api_version, parts)
        self._mute(max(throttle_ms, told_ms), client, now_ms)
        if throttle_ms <= told_ms:
            return parts
        return with_throttle_ms(self._api, header.api_version, parts, throttle_ms)

    def _mute(self, throttle_ms: int, client: tuple[str, str], now_ms: int) -> None:
        connection = self._connection
        connection.mute(throttle_ms)
        if throttle_ms:
            connection.counts.of_key(self._header.api_key).throttled_s += throttle_ms / 1000
            self._quotas.throttled.add(client, throttle_ms / 1000, now_ms)
