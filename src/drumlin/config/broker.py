"""The broker's configuration, typed, with what was changed while it runs.

`BrokerConfig` holds three layers over the defaults, the first that has a key wins: changed for
this broker, changed for the whole cluster, given at start. Attributes are Kafka's keys with
underscores for dots. They are looked up when they are needed, never copied, so that a change
takes effect everywhere at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from drumlin.config.errors import ConfigError
from drumlin.config.keys import BROKER_SYNONYMS, Key, broker_keys, known_broker_key, topic_keys
from drumlin.config.listeners import (
    Listener,
    advertised_listeners,
    broker_listeners,
    parse_protocol_map,
)
from drumlin.config.values import Value

#: Kafka's defaults for internal topics ask for three brokers; the embedded store has one.
SINGLE_BROKER_DEFAULTS: Final[dict[str, str | None]] = {
    "node.id": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class BrokerConfig:
    """Typed access to the broker's configuration; see the module.

    Every key of Kafka is an attribute; those declared here are the ones in use. Where Kafka
    has several keys for one thing (`log.retention.ms`, `.minutes`, `.hours`), the attribute
    of the first has the value that applies.
    """

    advertised_listeners: tuple[Listener, ...]
    auto_create_topics_enable: bool
    broker_rack: str | None
    connections_max_idle_ms: int
    default_replication_factor: int
    delete_topic_enable: bool
    fetch_max_bytes: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    listeners: tuple[Listener, ...]
    log_dirs: tuple[str, ...]
    log_flush_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    log_retention_check_interval_ms: int
    log_retention_ms: int
    log_roll_jitter_ms: int
    log_roll_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: dict[str, int]
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    node_id: int
    num_partitions: int
    num_recovery_threads_per_data_dir: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    queued_max_request_bytes: int
    queued_max_requests: int
    replica_high_watermark_checkpoint_interval_ms: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int

    def __init__(self, static: Mapping[str, str]) -> None:
        self.static = dict(static)
        self.cluster_wide: dict[str, str] = {}
        self.per_broker: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self._apply(_resolve(self.static))

    @classmethod
    def load(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """A configuration from the properties given at start.

        Raises:
            ConfigError: an unknown key, or a value that is not allowed.
        """
        for name, text in properties.items():
            known_broker_key(name, text)
        return cls(properties)

    def __getattr__(self, name: str) -> Any:
        # Reached only for what is no attribute; it lets the type checker pass undeclared keys.
        raise AttributeError(f"no configuration key is called {name}")

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Keys given at start that Kafka knows and that do nothing here."""
        keys = broker_keys()
        return tuple(
            name for name in sorted(self.static) if name not in keys or not keys[name].has_effect
        )

    def value(self, name: str) -> Value:
        """The value of one key by itself, whatever its synonyms say."""
        value: Value = self._values[name]
        return value

    def default_text(self, key: Key) -> str | None:
        """The default of a key, as text."""
        return SINGLE_BROKER_DEFAULTS.get(key.name, key.default)

    def topic_defaults(self) -> dict[str, Value]:
        """What a topic has where it has no value of its own, by topic key."""
        return {name: _topic_default(key, self._values) for name, key in topic_keys().items()}

    def check_dynamic(self, cluster_wide: Mapping[str, str], per_broker: Mapping[str, str]) -> None:
        """Whether these could be applied with `update_dynamic`.

        Raises:
            ConfigError: a value is not allowed.
        """
        _resolve({**self.static, **cluster_wide, **per_broker})

    def update_dynamic(
        self, cluster_wide: Mapping[str, str], per_broker: Mapping[str, str]
    ) -> None:
        """Take over what was changed at run time; it replaces earlier changes.

        Raises:
            ConfigError: a value is not allowed; then nothing changes.
        """
        resolved = _resolve({**self.static, **cluster_wide, **per_broker})
        self.cluster_wide, self.per_broker = dict(cluster_wide), dict(per_broker)
        self._apply(resolved)

    def _apply(self, resolved: tuple[dict[str, Any], dict[str, Any]]) -> None:
        self._values, derived = resolved
        for name, value in self._values.items():
            self.__dict__[name.replace(".", "_")] = value
        self.__dict__.update(derived)


def _resolve(given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values by key, and the attributes that are made of several keys or parsed further."""
    values: dict[str, Any] = {}
    for name, key in broker_keys().items():
        text = given.get(name)
        if text is None:
            text = SINGLE_BROKER_DEFAULTS.get(name, key.default)
        values[name] = None if text is None else key.parse(text)
    if "node.id" not in given and values["broker.id"] >= 0:
        values["node.id"] = values["broker.id"]
    _check_together(values, given)
    return values, _derive(values)


def _derive(values: dict[str, Any]) -> dict[str, Any]:
    protocols = parse_protocol_map(
        "listener.security.protocol.map", values["listener.security.protocol.map"]
    )
    controllers = values["controller.listener.names"] or ()
    listeners = broker_listeners(values["listeners"], protocols, controllers)
    keys = topic_keys()
    return {
        "advertised_listeners": advertised_listeners(
            values["advertised.listeners"], listeners, controllers
        ),
        "listeners": listeners,
        "log_dirs": values["log.dirs"] or values["log.dir"],
        "log_retention_ms": _topic_default(keys["retention.ms"], values),
        "log_roll_jitter_ms": _topic_default(keys["segment.jitter.ms"], values),
        "log_roll_ms": _topic_default(keys["segment.ms"], values),
        "log_flush_interval_ms": _topic_default(keys["flush.ms"], values),
        "max_connections_per_ip_overrides": _parse_overrides(
            values["max.connections.per.ip.overrides"]
        ),
    }


def _topic_default(key: Key, values: Mapping[str, Any]) -> Value:
    for synonym, factor in BROKER_SYNONYMS.get(key.name, ()):
        value = values[synonym]
        if value is not None:
            if key.name == "retention.ms" and value < 0:
                return -1
            return value * factor if factor > 1 else value  # type: ignore[no-any-return]
    return None if key.default is None else key.parse(key.default)


def _parse_overrides(text: str) -> dict[str, int]:
    overrides = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        host, colon, limit = entry.rpartition(":")
        if not colon or not host or not limit.strip().isdigit():
            name, allowed = "max.connections.per.ip.overrides", "must be a list of HOST:NUMBER"
            raise ConfigError(name, text, allowed, allowed)
        overrides[host.strip()] = int(limit)
    return overrides


def _check_together(values: dict[str, Any], given: Mapping[str, str]) -> None:
    """What no single key can tell.

    Raises:
        ConfigError: a value is refused because of its own limits or of another key.
    """
    keys = topic_keys()
    if _topic_default(keys["retention.ms"], values) == 0:
        name = next(name for name, _ in BROKER_SYNONYMS["retention.ms"] if values[name] == 0)
        message = "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
        raise _refused(name, given, "must be -1 (for ever) or at least 1", message)
    roll_ms = _topic_default(keys["segment.ms"], values)
    if isinstance(roll_ms, int) and roll_ms < 1:
        message = "log.roll.ms must be greater than or equal to 1"
        raise _refused("log.roll.ms", given, "must be at least 1", message)
    jitter_ms = _topic_default(keys["segment.jitter.ms"], values)
    if isinstance(jitter_ms, int) and jitter_ms < 0:
        message = "log.roll.jitter.ms must be greater than or equal to 0"
        raise _refused("log.roll.jitter.ms", given, "must be at least 0", message)
    if 0 < values["queued.max.request.bytes"] < values["socket.request.max.bytes"]:
        allowed = "must be at least socket.request.max.bytes, or -1"
        raise _refused("queued.max.request.bytes", given, allowed)
    if values["group.min.session.timeout.ms"] > values["group.max.session.timeout.ms"]:
        allowed = "must not be above group.max.session.timeout.ms"
        raise _refused("group.min.session.timeout.ms", given, allowed)
    if (
        values["max.connections.per.ip"] == 0
        and not values["max.connections.per.ip.overrides"].strip()
    ):
        allowed = "can be 0 only where max.connections.per.ip.overrides lets somebody in"
        message = (
            "max.connections.per.ip can be set to zero only if "
            "max.connections.per.ip.overrides property is set."
        )
        raise _refused("max.connections.per.ip", given, allowed, message)


def _refused(
    name: str, given: Mapping[str, str], allowed: str, message: str | None = None
) -> ConfigError:
    sentence = f"requirement failed: {message or f'{name} {allowed}'}"
    return ConfigError(name, given.get(name), allowed, sentence)
