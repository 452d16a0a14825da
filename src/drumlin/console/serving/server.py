"""The process: its socket, its TLS, and its end."""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import uvicorn

from drumlin.console.serving.app import application
from drumlin.console.serving.settings import Settings

_CONNECTIONS_MAX: Final = 256
_KEEP_ALIVE_S: Final = 5
_HEADERS_BYTES_MAX: Final = 32 << 10
_BACKLOG: Final = 128


def run(settings: Settings, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; `ready` is told the URL once connections are taken.

    Raises:
        OSError: the address cannot be listened on, or the certificate cannot be read.
    """
    with _listen(settings.host, settings.port) as sock:
        settings = replace(settings, port=sock.getsockname()[1])
        config = uvicorn.Config(
            application(settings),
            http="h11",
            ws="none",
            lifespan="on",
            loop="asyncio",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_CONNECTIONS_MAX,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_KEEP_ALIVE_S,
            h11_max_incomplete_event_size=_HEADERS_BYTES_MAX,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
            ssl_version=ssl.PROTOCOL_TLS_SERVER,
        )
        config.load()
        for each in (signal.SIGINT, signal.SIGTERM):
            # uvicorn raises it again once all is closed, for those who started it.
            signal.signal(each, lambda *_: None)
        scheme = "http" if settings.certificate is None else "https"
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        ready(f"{scheme}://{host}:{settings.port}/")
        uvicorn.Server(config).run(sockets=[sock])


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket, so that connections wait from the moment that `ready` is called."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
