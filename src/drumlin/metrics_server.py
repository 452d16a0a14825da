"""Serves metrics of a command that runs for long to Prometheus, in threads beside its work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from drumlin.config.config_error import ConfigError
from drumlin.config.listeners import Listener, metrics_listener

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric


class Collector(Protocol):
    """What there is to tell, asked for each answer, in a thread of the server."""

    def collect(self) -> Iterable[Metric]:
        """The metrics as they are now."""


def listener_at(address: str) -> Listener:
    """
    Raises:
        ValueError: this is no address.
    """
    try:
        listener = metrics_listener("--metrics-listener", address or ":")
    except ConfigError as error:
        raise ValueError(f"metrics cannot be served at {address!r}: {error}") from None
    assert listener is not None
    return listener


@contextlib.contextmanager
def metrics_served(address: str | None, collector: Collector) -> Iterator[None]:
    """Serve these metrics at HOST:PORT while the block runs; None: do not.

    Raises:
        ValueError: this is no address, or cannot be listened on.
    """
    if address is None:
        yield
        return
    from prometheus_client.exposition import start_http_server
    from prometheus_client.registry import CollectorRegistry

    registry = CollectorRegistry(auto_describe=False)
    asked: Any = collector  # the library's type for these is none of its interface
    registry.register(asked)
    listener = listener_at(address)
    try:
        server, thread = start_http_server(listener.port, listener.host.strip("[]"), registry)
    except OSError as error:
        raise ValueError(f"metrics cannot be served at {address!r}: {error}") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
