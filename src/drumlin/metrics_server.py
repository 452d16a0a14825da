"""A server that offers the metrics of a long-running command to Prometheus, in threads."""

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
    """A source of metrics, called for each answer in a thread of the server."""

    def collect(self) -> Iterable[Metric]:
        """The current metrics."""


def listener_at(address: str) -> Listener:
    """The address at which to serve metrics.

    Raises:
        ValueError: the text is not an address.
    """
    try:
        listener = metrics_listener("--metrics-listener", address or ":")
    except ConfigError as error:
        raise ValueError(f"metrics cannot be served at {address!r}: {error}") from None
    assert listener is not None
    return listener


@contextlib.contextmanager
def metrics_served(address: str | None, collector: Collector) -> Iterator[None]:
    """Serve metrics at HOST:PORT while the block runs; without an address, serve nothing.

    Raises:
        ValueError: the text is not an address, or listening there fails.
    """
    if address is None:
        yield
        return
    from prometheus_client.exposition import start_http_server
    from prometheus_client.registry import CollectorRegistry

    registry = CollectorRegistry(auto_describe=False)
    asked: Any = collector  # the library's type for collectors is not public
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
