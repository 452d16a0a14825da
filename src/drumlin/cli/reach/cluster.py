"""A cluster as the commands see it: synchronous calls on peer connections, one loop per command.

Topics, groups and offsets go through the client's functions; requests that only an administrator
sends (log directories, resources' configs) are sent by the commands themselves through `ask_*`.
Loads no Arrow.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Coroutine, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from drumlin.cli.reach.command_config import settings_of
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.connection import Request
from drumlin.peer.options import PeerOptions
from drumlin.wire.error_codes import ErrorCode, KafkaError, error_of
from drumlin.wire.protocol.describe_cluster import DescribeClusterRequest

T = TypeVar("T")

REQUEST_TIMEOUT: Final = timedelta(seconds=30)
_OPTIONS: Final = PeerOptions(client_id="drumlin-cli")
DESCRIBE_CLUSTER: Final = DescribeClusterRequest(
    include_cluster_authorized_operations=False, include_fenced_brokers=False
)


class Cluster:
    """A connected cluster whose brokers are known; `connect` makes one."""

    def __init__(self, runner: asyncio.Runner, connections: BrokerConnections) -> None:
        self._runner = runner
        self.connections = connections

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    @property
    def broker_ids(self) -> list[int]:
        return sorted(self.connections.view.brokers)

    def ask_any(self, api_name: str, request: Request) -> Any:
        """Ask any connected broker."""

        async def ask() -> Any:
            connection = await self.connections.any()
            return await connection.request(api_name, request)

        return self.run(ask())

    def ask_controller(self, api_name: str, request: Request) -> Any:
        """Ask the controller."""

        async def ask() -> Any:
            connection = await self.connections.controller()
            return await connection.request(api_name, request)

        return self.run(ask())

    def ask_broker(self, node_id: int, api_name: str, request: Request) -> Any:
        """Ask one broker."""

        async def ask() -> Any:
            connection = await self.connections.broker(node_id)
            return await connection.request(api_name, request)

        return self.run(ask())


@contextlib.contextmanager
def connect(
    bootstrap: str, command_config: Path | None = None, options: PeerOptions = _OPTIONS
) -> Iterator[Cluster]:
    """A connected cluster; `command_config` takes precedence over `options`.

    Raises:
        output.Failure: `command_config` is invalid.
        ValueError: `bootstrap` is not a list of addresses.
        PeerError: no broker answers; raised at once, without retries.
    """
    addresses = parse_bootstrap(bootstrap)
    chosen = dataclasses.replace(options, **settings_of(command_config))
    with asyncio.Runner() as runner:
        connections = BrokerConnections(addresses, chosen)
        try:
            runner.run(connections.refresh(()))
            yield Cluster(runner, connections)
        finally:
            runner.run(connections.close())


def check(code: ErrorCode | int, what: str, message: str | None = None) -> None:
    """Raise the broker's error, if the code is an error."""
    if code != ErrorCode.none:
        raise KafkaError(error_of(code), f"{what}: {message}" if message else what)
