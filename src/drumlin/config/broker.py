"""The broker's configuration, typed, including changes at run time.

`BrokerConfig` has three layers above the defaults, by precedence: changed for this broker, changed
for the whole cluster, given at start. Attributes are Kafka's keys with underscores for dots. Values
are looked up on each use, never copied, so that a change takes effect everywhere at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from drumlin.addresses import is_address, plain_address
from drumlin.config.config_error import ConfigError
from drumlin.config.consistency import (
    check_change,
    check_guards,
    check_together,
    is_key_or_certificate,
)
from drumlin.config.hints import known_broker_key
from drumlin.config.keys import Key, broker_keys, changeable_broker_key, of_a_listener, topic_keys
from drumlin.config.listeners import (
    Listener,
    advertised_listeners,
    broker_listeners,
    inter_broker_listener,
    metrics_choice,
    metrics_listener,
    parse_protocol_map,
)
from drumlin.config.machine_folders import log_dir_of
from drumlin.config.shares import part, shares
from drumlin.config.synonyms import topic_default
from drumlin.config.values import Refused, Value, ValueType, parse

#: Lets consumers read from a replica in their rack.
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
#: Defaults that differ from Kafka's. For internal topics, Kafka's defaults need three brokers; here
#: one is enough. Socket buffers are sized by the system as needed, while with Kafka's 100 KiB a
#: distant client gets no more than that per round trip.
OWN_DEFAULTS: Final[dict[str, str | None]] = {
    "node.id": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "socket.receive.buffer.bytes": "-1",
    "socket.send.buffer.bytes": "-1",
}


class BrokerConfig:
    """Typed access to the broker's configuration; see the module.

    Every key of Kafka is an attribute; the declared ones are in use. If Kafka has several keys for
    one setting (`log.retention.ms`, `.minutes`, `.hours`), the attribute of the first has the
    effective value.
    """

    add_partitions_to_txn_retry_backoff_max_ms: int
    add_partitions_to_txn_retry_backoff_ms: int
    advertised_listeners: tuple[Listener, ...]
    auto_create_topics_enable: bool
    auto_leader_rebalance_enable: bool
    broker_rack: str | None
    connections_max_idle_ms: int
    controlled_shutdown_enable: bool
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    cordoned_log_dirs: frozenset[str]
    default_replication_factor: int
    delegation_token_expiry_check_interval_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_max_lifetime_ms: int
    delete_topic_enable: bool
    drumlin_metrics_clients: re.Pattern[str]
    drumlin_metrics_clients_max: int
    drumlin_metrics_groups: re.Pattern[str]
    drumlin_metrics_groups_max: int
    drumlin_metrics_listener: Listener | None
    drumlin_metrics_topics: re.Pattern[str]
    drumlin_metrics_topics_max: int
    fetch_max_bytes: int
    follower_replication_throttled_rate: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    group_share_delivery_count_limit: int
    group_share_initialize_retry_interval_ms: int
    group_share_max_share_sessions: int
    group_share_max_size: int
    group_share_partition_max_record_locks: int
    group_share_record_lock_duration_ms: int
    inter_broker_listener_name: str
    leader_replication_throttled_rate: int
    leader_imbalance_check_interval_seconds: int
    leader_imbalance_per_broker_percentage: int
    listener_security_protocol_map: dict[str, str]
    listeners: tuple[Listener, ...]
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_threads: int
    log_dirs: tuple[str, ...]
    log_flush_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_initial_task_delay_ms: int
    log_retention_check_interval_ms: int
    log_retention_ms: int
    log_roll_jitter_ms: int
    log_roll_ms: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: dict[str, int]
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    metadata_log_dir: str | None
    node_id: int
    num_partitions: int
    num_recovery_threads_per_data_dir: int
    num_replica_fetchers: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int

    queued_max_request_bytes: int
    quota_window_num: int
    quota_window_size_seconds: int
    replica_alter_log_dirs_io_max_bytes_per_second: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_lag_time_max_ms: int
    replica_selector_class: str | None
    replica_socket_timeout_ms: int
    request_timeout_ms: int
    share_coordinator_cold_partition_snapshot_interval_ms: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_compression_codec: int
    share_coordinator_state_topic_min_isr: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_state_topic_replication_factor: int
    share_coordinator_state_topic_segment_bytes: int
    share_coordinator_write_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    telemetry_max_bytes: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int
    zookeeper_connect: str | None
    zookeeper_connection_timeout_ms: int | None
    zookeeper_session_timeout_ms: int

    def __init__(self, static: Mapping[str, str], brokers: int = 1) -> None:
        """`brokers`: the number of brokers that share this machine's limits."""
        self.static = _with_both_ids(static)
        self.brokers = brokers
        self.cluster_wide: dict[str, str] = {}
        self.per_broker: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self._topic_defaults: dict[str, Value] = {}
        self._given: Mapping[str, str] = self.static
        self._apply(_resolve(self.static))

    @classmethod
    def load(cls, properties: Mapping[str, str], brokers: int = 1) -> BrokerConfig:
        """A configuration from the properties given at start.

        Raises:
            ConfigError: an unknown key, or a value that is not allowed.
        """
        for name, text in properties.items():
            known_broker_key(name, text)
        check_guards(properties)
        return cls(properties, brokers)

    def __getattr__(self, name: str) -> Any:
        # Called only for unknown names; lets the type checker accept undeclared keys.
        raise AttributeError(f"no configuration key is called {name}")

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Keys given at start that Kafka knows but that have no effect here."""
        names = {each.name for each in self.listeners}
        return tuple(name for name in sorted(self.static) if not _has_effect(name, names))

    def value(self, name: str) -> Value:
        """The value of one key, regardless of its synonyms."""
        value: Value = self._values[name]
        return value

    def of_listener(self, listener: str, name: str) -> Any:
        """The value of one key for a listener: the listener's own, or the broker's."""
        text = self.text_of_listener(listener, name)
        return self._values[name] if text is None else broker_keys()[name].parse(text)

    def text_of_listener(self, listener: str, name: str) -> str | None:
        """The text set for this listener alone; `name` may include a SASL mechanism."""
        return self._given.get(f"listener.name.{listener.lower()}.{name}")

    def limits_of_listeners(self, name: str) -> dict[str, int]:
        """A limit of connections, for listeners that have one of their own."""
        return {
            each.name: part(self.of_listener(each.name, name), self.brokers)
            for each in self.listeners
            if self.text_of_listener(each.name, name) is not None
        }

    @property
    def listener_of_brokers(self) -> str | None:
        """The listener that has only its own limits; None if it is for clients as well."""
        return self.inter_broker_listener_name if len(self.listeners) > 1 else None

    def default_text(self, key: Key) -> str | None:
        """The default of a key, as text."""
        return OWN_DEFAULTS.get(key.name, key.default)

    def topic_defaults(self) -> Mapping[str, Value]:
        """The values for topics that do not set them, by topic key."""
        return self._topic_defaults

    def check_dynamic(self, cluster_wide: Mapping[str, str], per_broker: Mapping[str, str]) -> None:
        """Check that these changes can be applied with `update_dynamic`.

        Raises:
            ConfigError: a value is not allowed.
        """
        given = self._with_changes(cluster_wide, per_broker)
        values, _ = _resolve(given)
        check_change(self._values, values, given, self.listeners)
        self._check_secured(given)

    def _check_secured(self, given: Mapping[str, str]) -> None:
        """Check that no security settings of listeners change, except keys and certificates. Other
        changes would not take effect now, and might prevent the next start.

        Raises:
            ConfigError: another security setting would change.
        """
        protocols = self.listener_security_protocol_map
        secured = {each for each, protocol in protocols.items() if protocol != "PLAINTEXT"}
        for name in sorted(given.keys() | self._given.keys()):
            listener, key = of_a_listener(name) or ("", name)
            is_of_secured = listener.upper() in secured or (not listener and secured)
            if not is_of_secured or given.get(name) == self._given.get(name):
                continue
            if protocols.get(listener.upper(), "").endswith("SSL") and is_key_or_certificate(key):
                if self.zookeeper_connect and broker_keys()[key].is_sensitive:
                    allowed = "cannot be changed at run time: all could read it in ZooKeeper"
                    raise ConfigError(name, "...", allowed)
                continue
            if key.startswith("sasl.kerberos."):
                continue  # for GSSAPI, which listeners here do not support
            if key.startswith(("ssl.", "sasl.")) or key.endswith(_OF_MECHANISMS):
                allowed = "cannot be changed while the broker runs"
                raise ConfigError(name, "...", allowed)

    def update_dynamic(
        self, cluster_wide: Mapping[str, str], per_broker: Mapping[str, str]
    ) -> None:
        """Apply changes made at run time, which replace earlier ones.

        Raises:
            ConfigError: a value is not allowed; nothing is changed.
        """
        given = self._with_changes(cluster_wide, per_broker)
        resolved = _resolve(given)
        self.cluster_wide, self.per_broker = dict(cluster_wide), dict(per_broker)
        self._given = given
        self._apply(resolved)

    def with_changes(
        self, cluster_wide: Mapping[str, str], per_broker: Mapping[str, str]
    ) -> BrokerConfig:
        """A copy of this configuration with these run-time changes instead of its own.

        Raises:
            ConfigError: a value is not allowed.
        """
        wanted = BrokerConfig(self.static, self.brokers)
        wanted.update_dynamic(cluster_wide, per_broker)
        return wanted

    def listeners_that_differ(self, other: BrokerConfig) -> set[str]:
        """The listeners that have a key with another value in the other configuration."""
        names = {name for name, _ in self._given.items() ^ other._given.items()}
        return {parts[0].upper() for parts in map(of_a_listener, names) if parts}

    def is_cordoned(self, log_dir: str) -> bool:
        """Whether the log dir with this absolute path must not get new partitions (KIP-1066)."""
        return not self.cordoned_log_dirs.isdisjoint((log_dir, log_dir_of(log_dir), "*"))

    def _with_changes(
        self, cluster_wide: Mapping[str, str], per_broker: Mapping[str, str]
    ) -> dict[str, str]:
        """The effective properties. Changes of keys that Kafka 4 does not know have no effect."""
        return self.static | {
            name: text
            for name, text in {**cluster_wide, **per_broker}.items()
            if changeable_broker_key(name) is not None or name not in broker_keys()
        }

    def _apply(self, resolved: tuple[dict[str, Any], dict[str, Any]]) -> None:
        self._values, derived = resolved
        for name, value in self._values.items():
            self.__dict__[name.replace(".", "_")] = value
        self.__dict__.update(derived)
        if self.brokers > 1:
            for name, value in shares(self._values, self.brokers).items():
                self.__dict__[name.replace(".", "_")] = value
            self.max_connections_per_ip_overrides = {
                host: part(limit, self.brokers)
                for host, limit in self.max_connections_per_ip_overrides.items()
            }
        self._topic_defaults = {name: topic_default(name, self._values) for name in topic_keys()}


CONNECTION_RATE: Final = "max.connection.creation.rate"
CONNECTIONS: Final = "max.connections"
#: Prefixes of the keys that can be set for one listener.
_OF_LISTENERS: Final = (
    "ssl.",
    "sasl.",
    "connections.max.reauth",
    "connection.failed",
    CONNECTION_RATE,
)
#: Suffixes of the keys that can be set for a SASL mechanism of a listener.
_OF_MECHANISMS: Final = (".sasl.jaas.config", ".sasl.server.callback.handler.class")


def _has_effect(name: str, listeners: Collection[str]) -> bool:
    keys, parts = broker_keys(), of_a_listener(name)
    if parts is None:
        return name in keys and keys[name].has_effect
    listener, key = parts
    if listener.upper() not in listeners:
        return False
    is_of_listeners = key.startswith(_OF_LISTENERS) or key == CONNECTIONS
    is_known = key in keys and keys[key].has_effect and is_of_listeners
    return is_known or key.endswith(_OF_MECHANISMS)


def _absolute(path: str) -> str:
    return path if path == "*" else str(Path(path).absolute())


def _with_both_ids(static: Mapping[str, str]) -> dict[str, str]:
    """The configuration with the broker's id under its new and its old key, as in Kafka."""
    both = dict(static)
    for one, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if one in static:
            both.setdefault(other, static[one])
    return both


def _resolve(given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values by key, and attributes that combine several keys or are parsed further."""
    values: dict[str, Any] = {}
    for name, key in broker_keys().items():
        text = given.get(name)
        if text is None:
            text = OWN_DEFAULTS.get(name, key.default)
        values[name] = None if text is None else key.parse(text)
    check_together(values, given)
    return values, _derive(values)


def _derive(values: dict[str, Any]) -> dict[str, Any]:
    protocols = parse_protocol_map(
        "listener.security.protocol.map", values["listener.security.protocol.map"]
    )
    controllers = values["controller.listener.names"] or ()
    listeners = broker_listeners(values["listeners"], protocols, controllers)
    advertised = advertised_listeners(values["advertised.listeners"], listeners, controllers)
    return {
        "advertised_listeners": advertised,
        "cordoned_log_dirs": frozenset(map(_absolute, values["cordoned.log.dirs"])),
        "drumlin_metrics_listener": metrics_listener(
            "drumlin.metrics.listener", values["drumlin.metrics.listener"]
        ),
        "drumlin_metrics_clients": metrics_choice(
            "drumlin.metrics.clients", values["drumlin.metrics.clients"]
        ),
        "drumlin_metrics_groups": metrics_choice(
            "drumlin.metrics.groups", values["drumlin.metrics.groups"]
        ),
        "drumlin_metrics_topics": metrics_choice(
            "drumlin.metrics.topics", values["drumlin.metrics.topics"]
        ),
        "inter_broker_listener_name": inter_broker_listener(
            values["inter.broker.listener.name"],
            values["security.inter.broker.protocol"],
            advertised,
            protocols,
        ),
        "listeners": listeners,
        "listener_security_protocol_map": {each.name: protocols[each.name] for each in listeners},
        "log_dirs": values["log.dirs"] or values["log.dir"],
        "log_retention_ms": topic_default("retention.ms", values),
        "log_roll_jitter_ms": topic_default("segment.jitter.ms", values),
        "log_roll_ms": topic_default("segment.ms", values),
        "log_flush_interval_ms": topic_default("flush.ms", values),
        "max_connections_per_ip_overrides": _parse_overrides(
            values["max.connections.per.ip.overrides"]
        ),
    }


def _parse_overrides(text: str) -> dict[str, int]:
    """Limits by address; a name is refused, as looking it up could hold up the broker."""
    overrides = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        host, _, limit = entry.rpartition(":")
        address = host.strip().removeprefix("[").removesuffix("]")
        try:
            count = parse(ValueType.INT, limit)
        except Refused:
            count = None
        if not is_address(address) or not isinstance(count, int):
            allowed = "must be a list of ADDRESS:NUMBER; names of hosts are not looked up"
            raise ConfigError("max.connections.per.ip.overrides", text, allowed)
        overrides[plain_address(address)] = count
    return overrides
