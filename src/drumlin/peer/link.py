"""A link to one broker: a connection that is opened on demand, and again after a loss.

Owns the connection. Never sends a request, and reconnects only when the connection is needed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from itertools import repeat
from typing import Any

from drumlin.background import shielded
from drumlin.peer.connection import BrokerConnection
from drumlin.peer.peer_error import ConnectionLost

_log = logging.getLogger(__name__)

Open = Callable[[], Coroutine[Any, Any, BrokerConnection]]


class Link:
    """A connection to one broker, for one purpose.

    Args:
        name: the broker's name, for messages.
        open_: opens a connection.
        pauses: the pauses in seconds before another attempt, after one, two ... consecutive
            failures.
    """

    def __init__(
        self, name: str, open_: Open, pauses: Callable[[], Iterator[float]] = lambda: repeat(0.0)
    ) -> None:
        self._name, self._open, self._new_pauses = name, open_, pauses
        self._connection: BrokerConnection | None = None
        self._opening: asyncio.Task[BrokerConnection] | None = None
        self._waiting: asyncio.Future[BrokerConnection] | None = None
        self._failure: BaseException | None = None
        self._pauses = pauses()
        self._not_before = 0.0
        self._is_closed = False

    @property
    def if_open(self) -> BrokerConnection | None:
        """The connection, if it is open."""
        connection = self._connection
        return connection if connection is not None and connection.is_open else None

    @property
    def opening(self) -> asyncio.Task[BrokerConnection] | None:
        """The task that opens the connection, while it does."""
        return self._opening

    async def connection(self) -> BrokerConnection:
        """The connection, opened if necessary.

        Raises:
            PeerError: the connection could not be opened, or the last attempt failed too recently.
        """
        connection = self.if_open
        if connection is not None:
            return connection
        if self._waiting is None:
            loop = asyncio.get_running_loop()
            if self._failure is not None and loop.time() < self._not_before:
                raise ConnectionLost(str(self._failure))
            self._waiting = loop.create_future()
            self._opening = loop.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        # Several callers may wait for the connection: if one is cancelled, the others still wait.
        return await shielded(self._waiting)

    def _opened(self, task: asyncio.Task[BrokerConnection]) -> None:
        """Keep the connection, even if no caller waits for it any longer."""
        waiting, self._waiting, self._opening = self._waiting, None, None
        assert waiting is not None
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            if self._failure is None:
                _log.info("%s cannot be reached: %s", self._name, failure)
            self._failure = failure
            self._not_before = asyncio.get_running_loop().time() + next(self._pauses)
        elif task.cancelled() or self._is_closed:
            failure = ConnectionLost(f"{self._name}: no longer wanted")
            if not task.cancelled():
                task.result().close()
        else:
            self._connection, self._failure = task.result(), None
            self._pauses = self._new_pauses()
            waiting.set_result(self._connection)
            return
        waiting.set_exception(failure)

    def close(self) -> None:
        """Close the connection; waiting callers get `ConnectionLost`."""
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.close()
