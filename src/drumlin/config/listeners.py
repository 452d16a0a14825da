"""The listeners of a broker: the addresses to bind, and those to advertise."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from drumlin.config.config_error import ConfigError

_LISTENER: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_HOST_AND_PORT: Final = re.compile(r"\[?([0-9a-zA-Z\-%._:]*?)\]?:([0-9]+)")
_META_ADDRESS: Final = "0.0.0.0"  # noqa: S104  no address to connect to


@dataclass(frozen=True, slots=True)
class Listener:
    """One address; an empty host means every interface."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """Host and port, as written by people; `*` is every interface."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host or '*'}:{self.port}"


def parse_listeners(key: str, entries: tuple[str, ...]) -> tuple[Listener, ...]:
    """The listeners in a configuration value.

    Raises:
        ConfigError: a listener is malformed, or a name or port is given twice.
    """
    listeners = []
    for entry in entries:
        match = _LISTENER.fullmatch(entry)
        port = int(match[3]) if match else -1
        if match is None or not match[1] or not 0 <= port <= 65535:
            raise _refused(key, entries, f"must be NAME://HOST:PORT, which {entry} is not")
        listeners.append(Listener(match[1].upper(), match[2], port))
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise _refused(key, entries, "each listener must have a different name")
    return tuple(listeners)


def parse_protocol_map(key: str, text: str) -> dict[str, str]:
    """Listener name -> security protocol.

    Raises:
        ConfigError: an entry is not NAME:PROTOCOL.
    """
    protocols = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        name, colon, protocol = entry.rpartition(":")
        if not colon or protocol.upper() not in _PROTOCOLS:
            raise ConfigError(key, text, f"must be a list of NAME:PROTOCOL with {_NAMES}")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NAMES: Final = ", ".join(_PROTOCOLS)


def broker_listeners(
    entries: tuple[str, ...], protocols: dict[str, str], controller_names: tuple[str, ...]
) -> tuple[Listener, ...]:
    """The listeners that a broker binds: all except a KRaft controller's.

    Raises:
        ConfigError: no listener is left, or ports collide.
    """
    key = "listeners"
    controllers = {name.upper() for name in controller_names}
    found = parse_listeners(key, entries)
    listeners = tuple(each for each in found if each.name not in controllers)
    if not listeners:
        raise _refused(key, entries, "needs a listener that is not the controller's")
    addresses = [(each.host, each.port) for each in listeners if each.port]
    if len(set(addresses)) != len(addresses):
        raise _refused(key, entries, "each listener must have a different port")
    for listener in listeners:
        protocol = protocols.get(listener.name)
        if protocol is None:
            allowed = f"listener.security.protocol.map has no protocol for {listener.name}"
            raise _refused(key, entries, allowed)
    return listeners


def advertised_listeners(
    entries: tuple[str, ...] | None,
    listeners: tuple[Listener, ...],
    controller_names: tuple[str, ...],
) -> tuple[Listener, ...]:
    """The addresses to advertise to clients, one for each listener; by default those of
    `listeners`.

    Raises:
        ConfigError: clients cannot connect to an address, or it belongs to no listener.
    """
    key = "advertised.listeners"
    controllers = {name.upper() for name in controller_names}
    if entries is None:
        advertised = listeners
    else:
        found = parse_listeners(key, entries)
        advertised = tuple(each for each in found if each.name not in controllers)
    names = {listener.name for listener in listeners}
    for each in advertised:
        if each.host == _META_ADDRESS:
            allowed = f"{_META_ADDRESS} is no address that a client can connect to; give a real one"
            raise ConfigError(key, ",".join(entries or ()), allowed)
        if each.name not in names:
            allowed = f"{each.name} is not in listeners"
            raise ConfigError(key, ",".join(entries or ()), allowed)
    return advertised


def inter_broker_listener(
    name: str | None,
    protocol: str,
    advertised: tuple[Listener, ...],
    protocols: dict[str, str],
) -> str:
    """The name of the listener that the brokers of a cluster use among each other.

    All brokers of a cluster use the same name. Without `inter.broker.listener.name`, this is the
    listener named like the security protocol, as in Apache Kafka, or the first one with that
    protocol.

    Raises:
        ConfigError: there is no such listener.
    """
    names = [each.name for each in advertised]
    if name is not None:
        if name.upper() not in names:
            allowed = f"must be a listener that is advertised: {', '.join(names)}"
            raise ConfigError("inter.broker.listener.name", name, allowed)
        return name.upper()
    if protocol in names:
        return protocol
    for each in names:
        if protocols[each] == protocol:
            return each
    allowed = "must be the protocol of a listener that is advertised"
    raise ConfigError("security.inter.broker.protocol", protocol, allowed)


def metrics_listener(key: str, text: str | None) -> Listener | None:
    """The address for serving metrics; None if they are not served.

    Raises:
        ConfigError: the value is not an address.
    """
    if not text:
        return None
    match = _HOST_AND_PORT.fullmatch(text)
    if match is None or int(match[2]) > 65535:
        raise ConfigError(key, text, "must be HOST:PORT, as 127.0.0.1:9404")
    return Listener("METRICS", match[1], int(match[2]))


def metrics_choice(key: str, text: str) -> re.Pattern[str]:
    """The pattern of names that have metrics of their own.

    Raises:
        ConfigError: the value is not a regular expression.
    """
    try:
        return re.compile(text, re.DOTALL)  # names of groups and clients may have any characters
    except re.error as error:
        raise ConfigError(key, text, f"must be a regular expression: {error}") from None


def _refused(key: str, entries: tuple[str, ...], allowed: str) -> ConfigError:
    return ConfigError(key, ",".join(entries), allowed)
