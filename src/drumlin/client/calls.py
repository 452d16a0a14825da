"""The base class of all calls of a `Client`: its thread, its connections and its producer.

Each group of calls (reading, writing, transactions) is a subclass.
Nothing here may be used in the client's own thread, where waiting would never end.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from drumlin.client.errors import translated
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.write.producer import Producer
from drumlin.peer.broker_connections import BrokerConnections

T = TypeVar("T")


class Calls:
    """Runs coroutines in the client's thread, and waits for them."""

    def __init__(
        self, thread: CoreLoop, connections: BrokerConnections, producer: Producer
    ) -> None:
        self._thread = thread
        self._connections = connections
        self._producer = producer

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with translated():
            return self._thread.run(coroutine)
