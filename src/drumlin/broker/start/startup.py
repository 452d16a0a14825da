"""The steps before a broker serves: binding its addresses, opening its metadata and its logs.

Addresses come first: conflicts are known at once, while logs may have to be recovered. A failure is
one line for the operator.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from drumlin.broker.configs.config_changes import take_over_stored_configs
from drumlin.clock import Clock
from drumlin.config.broker import BrokerConfig
from drumlin.config.listeners import Listener
from drumlin.config.topic import LogConfig, log_config
from drumlin.metadata import opening
from drumlin.metadata.store.store import MetadataStore, UnusableMetadata
from drumlin.storage.all_logs.held_files import release_left
from drumlin.storage.all_logs.log_directories import LogDirectories, UnusableLogDirectory
from drumlin.wire.error_codes import KafkaError

#: Bound sockets, each with its listener, which has the actual port.
BoundSockets = dict[socket.socket, Listener]


class StartFailed(Exception):
    """The broker can't start; the message is for the operator."""


def bind_all(config: BrokerConfig) -> BoundSockets:
    """Bind all addresses, without accepting clients yet.

    Raises:
        StartFailed: an address is in use, or not one of this machine.
    """
    return _bind_listeners(config.listeners, config.socket_receive_buffer_bytes)


def bind_metrics(config: BrokerConfig) -> BoundSockets:
    """Bind the address of the metrics, if one is configured.

    Raises:
        StartFailed: the address is in use, or not one of this machine.
    """
    listener = config.drumlin_metrics_listener
    return {} if listener is None else _bind_listeners((listener,), 0)


def _bind_listeners(listeners: Iterable[Listener], receive_buffer_bytes: int) -> BoundSockets:
    bound: BoundSockets = {}
    for listener in listeners:
        port = listener.port
        for family, host in families(listener.host):
            try:
                sock = _bind(family, host, port, receive_buffer_bytes)
            except (OSError, UnicodeError, OverflowError) as error:
                close_all(bound)
                raise cannot_listen(listener, error) from error
            port = int(sock.getsockname()[1])  # a port chosen for IPv4 is used for IPv6, too
            bound[sock] = Listener(listener.name, listener.host, port)
    return bound


def families(host: str) -> list[tuple[socket.AddressFamily, str]]:
    """The address families to listen on for `host`, each with its address.

    As in Apache Kafka, no host means every interface with IPv4 and, if enabled, IPv6; so does "::".
    IPv4 and IPv6 have a socket each: on a shared one, a client with IPv4 would have a mapped
    address, which limits and logs would not recognize.
    """
    if host not in ("", "::"):
        return [(socket.AF_INET6 if ":" in host else socket.AF_INET, host)]
    found = [(socket.AF_INET, "")]
    if _has_ipv6():
        found.append((socket.AF_INET6, "::"))
    return found


def _has_ipv6() -> bool:
    """Whether the machine has IPv6 enabled, not just Python."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _bind(
    family: socket.AddressFamily, host: str, port: int, receive_buffer_bytes: int
) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if receive_buffer_bytes > 0:
            # Set before listening, as that fixes the window scale.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.bind((host, port))
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def cannot_listen(listener: Listener, error: Exception) -> StartFailed:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return StartFailed(f"cannot listen on {listener.address}: {why}")


def close_all(bound: BoundSockets) -> None:
    for sock in bound:
        sock.close()


async def open_metadata(
    config: BrokerConfig,
    clock: Clock,
    open_store: Callable[[], Awaitable[MetadataStore]] | None = None,
) -> MetadataStore:
    """Open the metadata, and apply the configuration changes that were made at run time.

    `open_store` opens a store other than the configured one.

    Raises:
        StartFailed: the metadata cannot be used.
    """
    try:
        if open_store is None:
            metadata = await opening.open_metadata(config, clock)
        else:
            metadata = await open_store()
    except UnusableMetadata as error:
        raise StartFailed(str(error)) from error
    take_over_stored_configs(config, metadata.image)
    return metadata


def open_logs(
    config: BrokerConfig, clock: Clock, metadata: MetadataStore, locks: Mapping[str, int]
) -> LogDirectories:
    """The logs in this broker's log dirs. Blocks; after a crash, for a long time.

    `locks`: descriptors of the log dirs that are already locked for this broker.

    Raises:
        StartFailed: a log dir cannot be used.
    """

    image = metadata.image

    def config_for(topic: str) -> LogConfig:
        return log_config(image.topic_configs(topic), config.topic_defaults())

    try:
        logs = LogDirectories(
            [Path(path) for path in config.log_dirs],
            node_id=config.node_id,
            cluster_id=image.cluster_id,
            config_for=config_for,
            clock=clock,
            recovery_threads=config.num_recovery_threads_per_data_dir,
            is_cordoned=config.is_cordoned,
            locks=locks,
            last_broker_epoch=metadata.last_broker_epoch,
        ).open()
    except (UnusableLogDirectory, KafkaError) as error:
        raise StartFailed(str(error)) from error
    release_left(logs.directories)
    return logs
