"""Opening and closing connections to ZooKeeper, through kazoo.

Reads and writes no node except the chroot. Calls block.
"""

from __future__ import annotations

import logging
import socket
import time
import warnings
from typing import TYPE_CHECKING, Final

from drumlin.zookeeper.access import ZooKeeperAccess

if TYPE_CHECKING:
    from kazoo.client import KazooClient

_OPEN: Final = ZooKeeperAccess()
_DEFAULT_PORT: Final = 2181
#: The first and the longest pause between attempts to connect.
_RETRY_S: Final = 0.1
_RETRY_MAX_S: Final = 2.0
_LOOK_S: Final = 0.5


class ZooKeeperFailure(Exception):
    """ZooKeeper cannot be used, or refuses a request; the message is for the operator."""


class ZooKeeperAway(ZooKeeperFailure):
    """There was no answer: the request may have been carried out, or may be later."""


def connect(
    hosts: str,
    *,
    session_timeout_ms: int,
    connection_timeout_ms: int,
    makes_chroot: bool = False,
    needs_chroot: bool = True,
    access: ZooKeeperAccess = _OPEN,
) -> KazooClient:
    """Connect to "host:port,host:port/chroot".

    Without `needs_chroot` the chroot may be missing, and looks empty.

    Raises:
        ZooKeeperAway: there is no answer.
        ZooKeeperFailure: the chroot does not exist.
    """
    from drumlin.zookeeper.reconnecting import reconnecting_client

    # The waiting caller reports lost connections.
    logger = logging.getLogger("drumlin.kazoo")
    logger.setLevel(logging.CRITICAL)
    hosts = _with_ports(hosts)
    retry = {"max_tries": -1, "delay": _RETRY_S, "max_delay": _RETRY_MAX_S}
    timeout_s = session_timeout_ms / 1000
    deadline = time.monotonic() + connection_timeout_ms / 1000
    try:
        options = access.options()
    except ValueError as error:
        raise ZooKeeperFailure(str(error)) from error
    client = reconnecting_client(
        access.context,
        hosts=hosts,
        timeout=timeout_s,
        logger=logger,
        connection_retry=retry,
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a missing chroot, which is checked below
        started = client.start_async()
    if not started.wait(connection_timeout_ms / 1000):
        close_client(client)
        raise ZooKeeperAway(f"no ZooKeeper answers on {hosts}")
    try:
        if client.chroot and (makes_chroot or needs_chroot):
            _enter_chroot(client, hosts, deadline, makes_it=makes_chroot)
    except BaseException:
        close_client(client)
        raise
    return client


def _enter_chroot(client: KazooClient, hosts: str, deadline: float, *, makes_it: bool) -> None:
    """Create the chroot, or check that it exists; continue after lost connections until the
    deadline.
    """
    from kazoo import exceptions

    ask = client.ensure_path_async if makes_it else client.exists_async
    while True:
        try:
            if not ask("/").get(timeout=max(0.0, deadline - time.monotonic())):
                raise ZooKeeperFailure(f"ZooKeeper on {hosts} has no {client.chroot}")
            return
        except client.handler.timeout_exception:
            break
        except (exceptions.ConnectionLoss, exceptions.SessionExpiredError):
            if time.monotonic() >= deadline:
                break
            time.sleep(_RETRY_S)
    raise ZooKeeperAway(f"no ZooKeeper answers on {hosts}")


def listens(address: tuple[str, int]) -> bool:
    """Whether a server accepts connections at an address."""
    try:
        with socket.create_connection(address, _LOOK_S):
            return True
    except OSError:
        return False


def close_client(client: KazooClient) -> None:
    """End the session, and release kazoo's threads."""
    client.stop()
    client.close()


def _with_ports(hosts: str) -> str:
    servers, slash, chroot = hosts.partition("/")
    each = [name.strip() for name in servers.split(",")]
    if not all(each):
        message = f"{hosts!r} is no ZooKeeper address: expected host:port[,…][/chroot]"
        raise ZooKeeperFailure(message)
    named = [name if ":" in name else f"{name}:{_DEFAULT_PORT}" for name in each]
    return ",".join(named) + slash + chroot
