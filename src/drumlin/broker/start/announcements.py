"""Announcements of a server to whoever runs it: that it is ready, its risks, and that it stops.

A person reads standard output and the log. A service manager such as systemd (`Type=notify`) gets
datagrams at the socket that `NOTIFY_SOCKET` names, by the protocol of `sd_notify(3)`; without that
variable there are none. A manager that cannot be reached stops no server.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Final

from drumlin.broker.start.process_setup import risks

if TYPE_CHECKING:
    from drumlin.config.broker import BrokerConfig

#: The variable with the address of the service manager's socket.
NOTIFY_SOCKET: Final = "NOTIFY_SOCKET"

_READY: Final = "READY=1"
_STOPPING: Final = "STOPPING=1"
#: A service manager that does not read its socket is not waited for longer.
_NOTIFY_S: Final = 1.0
_log = logging.getLogger("drumlin")


def announce_ready(config: BrokerConfig, ready: str, further: str = "") -> None:
    """Announce that clients are accepted, and what is risky. `further`: lines to print below."""
    print("\n".join(filter(None, (ready, further))), flush=True)  # noqa: T201
    _notify(_READY)
    for risk in risks(config):
        _log.warning("%s", risk)


def announce_stopping() -> None:
    """Announce that the process is about to end."""
    _log.info("stopping")
    _notify(_STOPPING)


def _notify(state: str) -> None:
    address = os.environ.get(NOTIFY_SOCKET, "")
    if not address:
        return
    # "@" stands for the zero byte with which Linux's abstract addresses begin.
    to = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.settimeout(_NOTIFY_S)
            sock.sendto(state.encode(), to)
    except (OSError, ValueError) as error:
        _log.warning("the service manager at %s could not be told %s: %s", address, state, error)
