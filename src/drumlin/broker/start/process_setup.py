"""Set-up of a server's process, whether it is a broker or starts brokers: logging, limits, memory,
signals, and warnings to the operator about risks.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from drumlin.broker.log_lines.forms import Form, formatter, log_what_is_printed
from drumlin.broker.log_lines.repeats import LINES
from drumlin.broker.rights.session import ANONYMOUS

if TYPE_CHECKING:
    from drumlin.config.broker import BrokerConfig
    from drumlin.config.listeners import Listener

T = TypeVar("T")
_log = logging.getLogger("drumlin")

#: The signals that stop a server.
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: The time that the event loop waits for a thread that holds the interpreter's lock, above all a
#: cleaner's thread. Python's default of 5 ms would show in clients' latency.
_SWITCH_INTERVAL_S: Final = 0.0002
#: Parameters of the GNU C library's `mallopt`.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
#: Free memory at the heap's end that is kept. By default the library returns the memory of each
#: large request to the kernel.
_KEPT_BYTES: Final = 32 << 20
#: Larger blocks are separate mappings (`wire/frames.py`), whose pages are allocated as they are
#: filled.
_MAPPED_FROM_BYTES: Final = 4 << 20
#: A directory that many systems clear when they start.
_FLEETING: Final = "/tmp"  # noqa: S108


def prepare_process(log_level: str, form: Form, name: str = "") -> None:
    """Set up logging, limits and memory. Log lines have `name`."""
    _set_up_logging(log_level, form, name)
    _raise_descriptor_limit()
    _keep_freed_memory()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def _set_up_logging(level: str, form: Form, name: str) -> None:
    LINES.setStream(sys.stderr)
    LINES.setFormatter(formatter(form, name))
    logging.basicConfig(level=level, handlers=[LINES])
    if form is Form.JSON:
        log_what_is_printed()


def _raise_descriptor_limit() -> None:
    """Raise the limit of file descriptors as far as allowed: segments and connections need them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _keep_freed_memory() -> None:
    """Reuse freed memory: new pages cost as much as writing their bytes to a log."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # other C libraries do not have it
        mallopt(_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def has_tls(config: BrokerConfig) -> bool:
    """Whether a listener uses TLS, so that SIGHUP renews certificates instead of stopping."""
    return any(each.endswith("SSL") for each in config.listener_security_protocol_map.values())


def stop_on(
    signals: Iterable[signal.Signals] = SIGNALS, on_hangup: Callable[[], object] | None = None
) -> asyncio.Event:
    """An event that is set when one of the signals arrives; SIGHUP calls `on_hangup` instead, if
    there is one.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if on_hangup is not None:
        loop.add_signal_handler(signal.SIGHUP, on_hangup)
        signals = [each for each in signals if each != signal.SIGHUP]
    for number in signals:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, stop.set)  # under nohup, SIGHUP stays ignored
    return stop


async def unless_stopped(start: Coroutine[Any, Any, T], stop: asyncio.Event) -> T:
    """The result of `start`. If a signal arrives first, the process ends here."""
    starting = asyncio.create_task(start)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        # Recovery may take long and cannot be interrupted. No records have been acknowledged yet,
        # so a clean stop is not needed; the next start begins the recovery again.
        _log.info("stopped before it was ready")
        logging.shutdown()
        os._exit(0)
    stopping.cancel()
    return starting.result()


def risks(config: BrokerConfig) -> Iterator[str]:
    """Warnings about settings that are common behind a firewall, but risky elsewhere."""
    unprotected = [each.address for each in config.listeners if _is_open_to_all(config, each)]
    if unprotected:
        yield (
            "any client that reaches this machine can read, write and delete everything: it "
            f"listens on {', '.join(unprotected)}, and asks no client for a user; --secure asks, "
            "and --listen 127.0.0.1:PORT is for this machine only"
        )
    fleeting = [path for path in config.log_dirs if Path(path).resolve().is_relative_to(_FLEETING)]
    if fleeting:
        yield (
            "the data may be gone after the next reboot: it is in "
            f"{', '.join(fleeting)}; log.dirs or --data DIR outside {_FLEETING} keeps it"
        )
    has_rights = bool(config.value("authorizer.class.name"))
    if has_rights and config.zookeeper_connect and not config.value("zookeeper.set.acl"):
        yield (
            "whoever reaches ZooKeeper can change the ACLs and read the users' credentials there: "
            "zookeeper.set.acl=true with drumlin.zookeeper.digest is against that"
        )


def _is_open_to_all(config: BrokerConfig, listener: Listener) -> bool:
    """Whether other machines can reach a listener, and may do everything there."""
    if _is_loopback(listener.host):
        return False
    protocol = config.listener_security_protocol_map[listener.name]
    asks_for_certificate = config.of_listener(listener.name, "ssl.client.auth") == "required"
    if protocol.startswith("SASL") or (protocol == "SSL" and asks_for_certificate):
        return False
    if not str(config.value("authorizer.class.name") or "").strip():
        return True
    super_users = str(config.value("super.users") or "").split(";")
    return ANONYMOUS in (each.strip() for each in super_users)


def _is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`. May wait for a name server."""
    if not host:
        return False
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(ip_address(each[4][0]).is_loopback for each in found)
