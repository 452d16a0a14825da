"""Requests for which the client has no call, with the client's retries."""

from __future__ import annotations

from typing import Any

from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.connection import Request
from drumlin.peer.rights import refusal
from drumlin.wire.error_codes import ErrorCode, error_of

#: A value that `json.dumps` takes.
Answer = dict[str, Any]


async def ask_any(connections: BrokerConnections, api_name: str, request: Request) -> Any:
    """Ask any broker, a connected one if there is one."""

    async def attempt() -> Any:
        connection = await connections.any()
        return await connection.request(api_name, request)

    return await connections.retrying(attempt)


async def ask_broker(
    connections: BrokerConnections, node_id: int, api_name: str, request: Request
) -> Any:
    """Ask one broker."""

    async def attempt() -> Any:
        connection = await connections.broker(node_id)
        return await connection.request(api_name, request)

    return await connections.retrying(attempt)


def check(api_name: str, code: ErrorCode | int, what: str, message: str | None = None) -> None:
    """Raise the broker's error, if the code is an error."""
    if code != ErrorCode.none:
        raise refusal(api_name, error_of(code), f"{what}: {message}" if message else what)
