"""Requests for which the client has no call, with the client's retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.connection import Request
from drumlin.peer.peer_error import PeerError
from drumlin.peer.rights import refusal
from drumlin.wire.error_codes import ErrorCode, KafkaError, error_of

#: A value that `json.dumps` takes.
Answer = dict[str, Any]
#: Questions of one answer that are asked at the same time.
_AT_ONCE: Final = 8
#: The integers that a browser keeps exactly.
_EXACT: Final = 2**53

K = TypeVar("K")
V = TypeVar("V")


def exact(number: int) -> int | str:
    """A number that clients may choose; as text if a browser would round it."""
    return number if abs(number) < _EXACT else str(number)


async def ask_each(ask: Callable[[K], Awaitable[V]], items: Iterable[K]) -> list[V]:
    """The answers about items, in their order; a few are asked for at a time."""
    free = asyncio.Semaphore(_AT_ONCE)

    async def answer(item: K) -> V:
        async with free:
            return await ask(item)

    return await asyncio.gather(*map(answer, items))


async def ask_each_visible(ask: Callable[[K], Awaitable[V]], items: Iterable[K]) -> dict[K, V]:
    """As `ask_each`, by item; without those about which a broker does not answer this user."""
    found: dict[K, V] = {}

    async def note(item: K) -> None:
        try:
            found[item] = await ask(item)
        except (KafkaError, PeerError):
            return

    await ask_each(note, items)
    return found


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
