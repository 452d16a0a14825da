"""kazoo's thread for a connection, which lasts as long as the client does.

kazoo's own ends for good with the first error that it does not know, such as one of `epoll` when
the system is short of something; the client would wait for ever for a connection.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KeeperState

_log = logging.getLogger(__name__)
_PAUSE_S: Final = 0.5


def lasting_client(**options: Any) -> KazooClient:
    """A client that connects again, whatever its connection has failed for."""
    handler = _Handler()
    handler.client = KazooClient(handler=handler, **options)
    return handler.client


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    client: KazooClient

    def spawn(
        self, function: Callable[..., object], *arguments: Any, **named: Any
    ) -> threading.Thread:
        def run() -> None:
            while True:
                try:
                    function(*arguments, **named)
                except Exception as error:  # noqa: BLE001  see above
                    _log.warning(
                        "the connection to ZooKeeper has failed, and begins anew: %r", error
                    )
                    # What is asked for meanwhile has failed, as after any connection that is lost.
                    self.client._session_callback(KeeperState.CONNECTING)
                    time.sleep(_PAUSE_S)
                else:
                    return

        thread: threading.Thread = super().spawn(run)
        return thread
