"""A kazoo client whose connection thread survives every error.

kazoo's own thread ends at the first unexpected error, for example one of `epoll` when a system
resource is short; then the client would wait for a connection for ever.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KeeperState

_log = logging.getLogger(__name__)
_PAUSE_S: Final = 0.5


def reconnecting_client(tls: Callable[[], ssl.SSLContext], **options: Any) -> KazooClient:
    """A client that reconnects after any error of its connection. `tls`: returns the context of an
    encrypted connection, as kazoo's own context would trust every CA that the system trusts.
    """
    handler = _Handler()
    handler.tls = tls
    handler.client = KazooClient(handler=handler, **options)
    return handler.client


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    client: KazooClient
    tls: Callable[[], ssl.SSLContext]

    def create_connection(
        self, address: tuple[str, int], hostname: str, *, use_ssl: bool, timeout: float, **_: Any
    ) -> socket.socket:
        sock: socket.socket = super().create_connection(address, timeout=timeout)
        if not use_ssl:
            return sock
        try:
            return self.tls().wrap_socket(sock, server_hostname=hostname)
        except BaseException:
            sock.close()
            raise

    def spawn(
        self, function: Callable[..., object], *arguments: Any, **named: Any
    ) -> threading.Thread:
        def run() -> None:
            while True:
                try:
                    function(*arguments, **named)
                except Exception as error:  # noqa: BLE001  see above
                    _log.warning("the connection to ZooKeeper failed, connecting again: %r", error)
                    # Requests in flight fail, as after any lost connection.
                    self.client._session_callback(KeeperState.CONNECTING)
                    time.sleep(_PAUSE_S)
                else:
                    return

        thread: threading.Thread = super().spawn(run)
        return thread
