"""The configurations of several brokers of one machine, derived from one configuration. Pure.

The first broker has the unchanged configuration. The others have the next higher ids and ports, and
a folder of their own in each log dir.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from drumlin.config.broker import BrokerConfig
from drumlin.config.config_error import ConfigError
from drumlin.config.listeners import Listener
from drumlin.config.machine_folders import folder_of

_PORT_MAX: Final = 65535


def check_machine(config: BrokerConfig, brokers: int) -> None:
    """Check that a configuration can serve this many brokers.

    Raises:
        ConfigError: it cannot.
    """
    if config.zookeeper_connect:
        allowed = "cannot be given with --brokers: its brokers keep their metadata in the data dir"
        raise ConfigError("zookeeper.connect", config.zookeeper_connect, allowed)
    _check_ports("listeners", config.listeners, brokers)
    _check_ports("advertised.listeners", config.advertised_listeners, brokers)


def _check_ports(key: str, listeners: Iterable[Listener], brokers: int) -> None:
    taken: dict[int, Listener] = {}
    for listener in listeners:
        for port in range(listener.port, listener.port + brokers) if listener.port else ():
            if port > _PORT_MAX:
                allowed = f"must leave {brokers} ports from {listener.port} on"
                raise ConfigError(key, _written(listener), allowed)
            other = taken.setdefault(port, listener)
            if other is not listener:
                allowed = (
                    f"must be {brokers} ports away from {_written(other)}: "
                    "each of the brokers takes the next one"
                )
                raise ConfigError(key, _written(listener), allowed)


def properties_of(
    config: BrokerConfig, properties: Mapping[str, str], index: int
) -> dict[str, str]:
    """The properties of one broker of a machine that is configured with `properties`."""
    # The metrics of all brokers are served by the process that starts them.
    is_silent = "drumlin.metrics.listener" not in properties
    asks = {"drumlin.metrics.clients.max": "0"} if is_silent else {}
    if index == 0:
        return _without(properties, "drumlin.metrics.listener") | asks
    node_id = config.node_id + index

    def own(path: str) -> str:
        return path if path == "*" else folder_of(path, index, node_id)

    of_its_own = {
        "node.id": str(node_id),
        "log.dirs": ",".join(map(own, config.log_dirs)),
        "listeners": _moved(config.listeners, index),
    }
    if "advertised.listeners" in properties:
        of_its_own["advertised.listeners"] = _moved(config.advertised_listeners, index)
    if "cordoned.log.dirs" in properties:
        cordoned = properties["cordoned.log.dirs"].split(",")
        of_its_own["cordoned.log.dirs"] = ",".join(own(each.strip()) for each in cordoned if each)
    left = _without(properties, "broker.id", "log.dir", "drumlin.metrics.listener")
    return left | of_its_own | asks


def _without(properties: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: text for name, text in properties.items() if name not in names}


def _moved(listeners: Iterable[Listener], index: int) -> str:
    moved = (
        Listener(each.name, each.host, each.port + index if each.port else 0) for each in listeners
    )
    return ",".join(map(_written, moved))


def _written(listener: Listener) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{listener.name}://{host}:{listener.port}"
