"""The broker's configuration: where values come from, what is refused, what may change."""

# ruff: noqa: E501  a case stays on its line

from __future__ import annotations

from pathlib import Path

import pytest

from drumlin.config.broker import BrokerConfig
from drumlin.config.config_error import ConfigError, UnknownKey
from drumlin.config.keys import broker_keys
from drumlin.config.listeners import Listener
from drumlin.config.sources import read_environment, read_properties_file
from drumlin.config.values import ValueType
from rig.brokers.drumlin_server import SERVER_PROPERTIES

_HINTS = {
    ValueType.BOOLEAN: "bool",
    ValueType.INT: "int",
    ValueType.SHORT: "int",
    ValueType.LONG: "int",
    ValueType.DOUBLE: "float",
    ValueType.STRING: "str",
}


_PARSED_FURTHER = (
    "listener_security_protocol_map",
    "drumlin_metrics_listener",
    "drumlin_metrics_clients",
    "drumlin_metrics_groups",
    "drumlin_metrics_topics",
    "max_connections_per_ip_overrides",
)


def test_defaults() -> None:
    config = BrokerConfig.load({})
    assert config.node_id == 1
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.log_retention_ms == 7 * 24 * 3600 * 1000
    assert config.offsets_topic_replication_factor == 1
    assert config.transaction_state_log_min_isr == 1
    assert config.without_effect == ()


def test_declared_attributes_are_keys_of_that_type() -> None:
    for attribute, hint in BrokerConfig.__annotations__.items():
        key = broker_keys()[attribute.replace("_", ".")]
        assert key.has_effect, attribute
        if key.value_type in _HINTS and attribute not in _PARSED_FURTHER:
            assert hint.removesuffix(" | None") == _HINTS[key.value_type], attribute


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-5"}, -1),
    ],
)
def test_retention_synonyms(properties: dict[str, str], retention_ms: int) -> None:
    config = BrokerConfig.load(properties)
    assert config.log_retention_ms == retention_ms
    assert config.topic_defaults()["retention.ms"] == retention_ms


def test_other_synonyms() -> None:
    config = BrokerConfig.load(
        {
            "log.roll.hours": "2",
            "log.roll.jitter.hours": "1",
            "log.flush.scheduler.interval.ms": "7",
            "log.dir": "/one",
            "broker.id": "4",
        }
    )
    assert config.log_roll_ms == 7_200_000
    assert config.log_roll_jitter_ms == 3_600_000
    assert config.log_flush_interval_ms == 7
    assert config.log_dirs == ("/one",)
    assert config.node_id == 4


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("log.segment.bytes", "x", 'log.segment.bytes = "x": must be a whole number (32 bits) of at least 1048576'),
        ("compression.gzip.level", "0", 'compression.gzip.level = "0": must be a whole number (32 bits) from 1 to 9, or -1'),
        ("compression.type", "foo", 'compression.type = "foo": must be one of uncompressed, zstd, lz4, snappy, gzip, producer'),
        ("auto.create.topics.enable", "yes", 'auto.create.topics.enable = "yes": must be true or false'),
        ("log.retention.ms", "0", 'log.retention.ms = "0": must be -1 (forever) or at least 1'),
        ("log.retention.hours", "0", 'log.retention.hours = "0": must be -1 (forever) or at least 1'),
        ("log.roll.ms", "0", 'log.roll.ms = "0": must be at least 1'),
        ("log.dirs", "", 'log.dirs = "": must be a list of non-empty entries, at least one'),
        ("queued.max.request.bytes", "5", 'queued.max.request.bytes = "5": must be at least socket.request.max.bytes, or -1'),
        ("max.connections.per.ip", "0", 'max.connections.per.ip = "0": can be 0 only where max.connections.per.ip.overrides lets some client in'),
        ("max.connections.per.ip.overrides", "x", 'max.connections.per.ip.overrides = "x": must be a list of ADDRESS:NUMBER; names of hosts are not looked up'),
        ("max.connections.per.ip.overrides", "localhost:5", 'max.connections.per.ip.overrides = "localhost:5": must be a list of ADDRESS:NUMBER; names of hosts are not looked up'),
        ("max.connections.per.ip.overrides", "10.0.0.1:²", 'max.connections.per.ip.overrides = "10.0.0.1:²": must be a list of ADDRESS:NUMBER; names of hosts are not looked up'),
        ("listeners", "X://:9093", 'listeners = "X://:9093": listener.security.protocol.map has no protocol for X'),
        ("listeners", "localhost", 'listeners = "localhost": must be NAME://HOST:PORT, which localhost is not'),
        ("listeners", "PLAINTEXT://a:1,PLAINTEXT://b:2", 'listeners = "PLAINTEXT://a:1,PLAINTEXT://b:2": each listener must have a different name'),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:1", 'advertised.listeners = "PLAINTEXT://0.0.0.0:1": 0.0.0.0 is no address that a client can connect to; give a real one'),
        ("advertised.listeners", "OTHER://a:1", 'advertised.listeners = "OTHER://a:1": OTHER is not in listeners'),
        ("inter.broker.listener.name", "OTHER", 'inter.broker.listener.name = "OTHER": must be a listener that is advertised: PLAINTEXT'),
        ("security.inter.broker.protocol", "SSL", 'security.inter.broker.protocol = "SSL": must be the protocol of a listener that is advertised'),
        ("authorizer.class.name", "org.example.Acls", 'authorizer.class.name = "org.example.Acls": must be org.apache.kafka.metadata.authorizer.StandardAuthorizer: no other class can be loaded here'),
        ("super.users", "User:admin", 'super.users = "User:admin": without authorizer.class.name everybody may do everything'),
        ("allow.everyone.if.no.acl.found", "false", 'allow.everyone.if.no.acl.found = "false": without authorizer.class.name everybody may do everything'),
        ("principal.builder.class", "a.B", 'principal.builder.class = "a.B": must be org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder: no class of Java can be loaded here'),
        ("listener.name.x.scram-sha-256.sasl.server.callback.handler.class", "a.B", 'listener.name.x.scram-sha-256.sasl.server.callback.handler.class = "a.B": must be org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler: no class of Java can be loaded here'),
        ("listener.name.x.ssl.engine.factory.class", "a.B", 'listener.name.x.ssl.engine.factory.class = "a.B": must be org.apache.kafka.common.security.ssl.DefaultSslEngineFactory: no class of Java can be loaded here'),
        ("client.quota.callback.class", "a.B", 'client.quota.callback.class = "a.B": must not be set, as no class of Java can be loaded here: nothing would be limited'),
        ("create.topic.policy.class.name", "P", 'create.topic.policy.class.name = "P": must not be set, as policies are not served: any topic can be created'),
        ("alter.config.policy.class.name", "P", 'alter.config.policy.class.name = "P": must not be set, as policies are not served: any configuration can be set'),
        ("log.segment.byte", "1", 'log.segment.byte = "1": no such configuration key; did you mean log.segment.bytes?'),
    ],
)  # fmt: skip
def test_refused_with_one_line(key: str, value: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load({key: value})
    assert str(caught.value) == line
    assert (caught.value.key, caught.value.value) == (key, value)


def test_limits_of_addresses_in_any_form() -> None:
    text = "127.0.0.1:5, [::1]:6,2001:DB8:0:0:0:0:0:A:7"
    config = BrokerConfig({"max.connections.per.ip.overrides": text})
    assert config.max_connections_per_ip_overrides == {"127.0.0.1": 5, "::1": 6, "2001:db8::a": 7}


def test_two_numbers_for_one_broker() -> None:
    with pytest.raises(ConfigError, match=r"must be the same as node\.id"):
        BrokerConfig.load({"node.id": "1", "broker.id": "2"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "PLAINTEXT"),
        ({"listeners": "CLIENTS://:1,PLAINTEXT://:2"}, "PLAINTEXT"),
        ({"listeners": "CLIENTS://:1,BROKERS://:2"}, "CLIENTS"),
        ({"inter.broker.listener.name": "brokers"}, "BROKERS"),
        ({"advertised.listeners": "BROKERS://a:2"}, "BROKERS"),
    ],
)
def test_where_brokers_find_each_other(given: dict[str, str], expected: str) -> None:
    of_all = "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT"
    listeners = {} if not given else {"listeners": "CLIENTS://:1,BROKERS://:2"}
    config = BrokerConfig.load({"listener.security.protocol.map": of_all} | listeners | given)
    assert config.inter_broker_listener_name == expected


def test_two_ways_to_say_where_brokers_find_each_other() -> None:
    both = {"inter.broker.listener.name": "A", "security.inter.broker.protocol": "PLAINTEXT"}
    with pytest.raises(ConfigError, match="must not be given together"):
        BrokerConfig.load(both)


def test_what_is_nobodys_key() -> None:
    with pytest.raises(UnknownKey) as caught:
        BrokerConfig.load({"completely.made.up.thing": "1"})
    assert "did you mean" not in str(caught.value)


def test_keys_without_effect_are_named() -> None:
    config = BrokerConfig.load(
        {
            "zookeeper.sync.time.ms": "2000",
            "inter.broker.protocol.version": "2.8",
            "num.io.threads": "8",
            "allow.everyone.if.no.acl.found": "true",
            "listener.name.internal.ssl.keystore.location": "/keys",
            "rsm.config.anything": "x",
            "num.partitions": "3",
        }
    )
    assert config.num_partitions == 3
    assert config.without_effect == (
        "inter.broker.protocol.version",
        "listener.name.internal.ssl.keystore.location",
        "num.io.threads",
        "rsm.config.anything",
        "zookeeper.sync.time.ms",
    )


def test_a_real_properties_file_is_taken() -> None:
    config = BrokerConfig.load(read_properties_file(SERVER_PROPERTIES))
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:9404", "127.0.0.1", 9404), ("[::1]:1", "::1", 1), (":9404", "", 9404)],
)
def test_the_address_of_metrics(text: str, host: str, port: int) -> None:
    config = BrokerConfig.load({})
    assert config.drumlin_metrics_listener is None
    for chosen in (config.drumlin_metrics_groups, config.drumlin_metrics_clients):
        assert chosen.fullmatch("any\nname\r\u2028")
    listener = BrokerConfig.load({"drumlin.metrics.listener": text}).drumlin_metrics_listener
    assert listener is not None
    assert (listener.host, listener.port) == (host, port)
    assert listener.address == (text if host else f"*{text}")


@pytest.mark.parametrize(
    "text", ["9404", "host:", "host:x", "host:70000", "http://host:1", "a b:1"]
)
def test_what_is_no_address_of_metrics(text: str) -> None:
    with pytest.raises(ConfigError, match=r"drumlin\.metrics\.listener = .*: must be HOST:PORT"):
        BrokerConfig.load({"drumlin.metrics.listener": text})


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_properties_file(tmp_path / "nothing")


def test_environment() -> None:
    properties, unknown = read_environment(
        {
            "DRUMLIN_LOG_SEGMENT_BYTES": "1048576",
            "DRUMLIN_ZOOKEEPER_CLIENTCNXNSOCKET": "x",
            "DRUMLIN_LISTENER_NAME_IN___SIDE_SSL_KEY__STORE": "y",
            "DRUMLIN_LOG_SEGMENT_BITES": "1",
            "DRUMLIN_METRICS_LISTENER": "127.0.0.1:9404",
            "PATH": "/bin",
        }
    )
    assert properties == {
        "log.segment.bytes": "1048576",
        "zookeeper.clientCnxnSocket": "x",
        "listener.name.in-side.ssl.key_store": "y",
        "drumlin.metrics.listener": "127.0.0.1:9404",
    }
    assert unknown == ["DRUMLIN_LOG_SEGMENT_BITES"]


def test_no_two_keys_share_a_variable() -> None:
    names = [name.removeprefix("drumlin.").replace(".", "_").upper() for name in broker_keys()]
    assert len(set(names)) == len(names)


def test_changes_at_run_time_win_and_can_be_taken_back() -> None:
    config = BrokerConfig.load({"log.retention.hours": "1", "fetch.max.bytes": "2000"})
    config.update_dynamic({"log.retention.ms": "5", "nobody.knows": "x"}, {})
    assert config.log_retention_ms == 5
    config.update_dynamic({"log.retention.ms": "5"}, {"log.retention.ms": "6"})
    assert config.topic_defaults()["retention.ms"] == 6
    config.update_dynamic({}, {})
    assert config.log_retention_ms == 3_600_000


def test_a_refused_change_changes_nothing() -> None:
    config = BrokerConfig.load({})
    with pytest.raises(ConfigError):
        config.update_dynamic({"log.retention.ms": "5", "log.roll.ms": "0"}, {})
    assert config.log_retention_ms == 7 * 24 * 3600 * 1000
    assert config.cluster_wide == {}


TO_BE_LOADED = "org.apache.kafka.common.metrics.JmxReporter: no other class can be loaded here"
FOR_A_LISTENER = "listener.name.plaintext.max.connections"


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        (
            {"num.recovery.threads.per.data.dir": "6"},
            "can go from 2 to between 1 and 4 in one step",
        ),
        ({"background.threads": "4"}, "can go from 10 to between 5 and 20 in one step"),
        ({"log.cleaner.threads": "3"}, "can go from 1 to between 1 and 2 in one step"),
        ({"remote.log.reader.threads": "2"}, "can go from 10 to between 5 and 20 in one step"),
        ({"max.connections": "0"}, "must be at least 1"),
        ({"max.connection.creation.rate": "0"}, "must be at least 1"),
        ({FOR_A_LISTENER: "0"}, "must be at least 1"),
        ({FOR_A_LISTENER: "x"}, "must be a whole number (32 bits) of at least 0"),
        (
            {"log.local.retention.ms": "-1"},
            "must not be above log.retention.ms, which is 604800000",
        ),
        (
            {"log.local.retention.bytes": "100", "log.retention.bytes": "50"},
            "must not be above log.retention.bytes, which is 50",
        ),
        ({"metric.reporters": "x"}, f"must be {TO_BE_LOADED}"),
        ({"cordoned.log.dirs": "/nowhere"}, "must be some of log.dirs, or * for all"),
        (
            {"group.share.assignment.interval.ms": "1000000"},
            (
                "must be between group.share.min.assignment.interval.ms and "
                "group.share.max.assignment.interval.ms"
            ),
        ),
    ],
)
def test_changes_that_are_refused(changes: dict[str, str], refusal: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load({}).check_dynamic(changes, {})
    key, value = next(iter(changes.items()))
    assert str(caught.value) == f'{key} = "{value}": {refusal}'


def test_a_listener_of_others_is_not_checked_as_ours() -> None:
    BrokerConfig.load({}).check_dynamic({"listener.name.other.max.connections": "0"}, {})


def test_what_only_older_kafka_knows_is_stored_and_means_nothing() -> None:
    config = BrokerConfig.load({})
    config.update_dynamic({"zookeeper.session.timeout.ms": "no number"}, {})
    assert config.cluster_wide == {"zookeeper.session.timeout.ms": "no number"}
    assert config.value("zookeeper.session.timeout.ms") == 18_000


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.outside.ssl.cipher.suites",
        "listener.name.outside.plain.sasl.jaas.config",
        "ssl.cipher.suites",
    ],
)
def test_what_secures_a_listener_stays(name: str) -> None:
    listeners = {
        "listeners": "PLAINTEXT://:1,OUTSIDE://:2",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:SASL_SSL",
    }
    config = BrokerConfig.load(listeners)
    with pytest.raises(ConfigError, match="cannot be changed while the broker runs"):
        config.check_dynamic({}, {name: "secret"})
    config.check_dynamic({}, {"listener.name.plaintext.ssl.cipher.suites": "a"})
    # Kerberos is not served, so nothing comes of what tools set about it.
    config.check_dynamic({}, {"sasl.kerberos.min.time.before.relogin": "58000"})


def test_a_listener_with_tls_takes_other_keys_but_no_secret_for_zookeeper() -> None:
    listeners = {
        "listeners": "OUTSIDE://:1,LOGIN://:2",
        "listener.security.protocol.map": "OUTSIDE:SSL,LOGIN:SASL_PLAINTEXT",
        "inter.broker.listener.name": "OUTSIDE",
    }
    config, start = BrokerConfig.load(listeners), "listener.name.outside.ssl.keystore"
    changed = {f"{start}.location": "a.p12", f"{start}.password": "secret"}
    config.check_dynamic({}, changed)
    wanted = config.with_changes({}, changed)
    assert wanted.listeners_that_differ(config) == {"OUTSIDE"}
    assert wanted.of_listener("OUTSIDE", "ssl.keystore.location") == "a.p12"
    assert config.of_listener("OUTSIDE", "ssl.keystore.location") is None
    in_zookeeper = BrokerConfig.load(listeners | {"zookeeper.connect": "here:2181"})
    in_zookeeper.check_dynamic({}, {f"{start}.location": "a.pem"})
    with pytest.raises(ConfigError, match="could read it in ZooKeeper") as refused:
        in_zookeeper.check_dynamic({}, changed)
    assert "secret" not in str(refused.value)
    with pytest.raises(ConfigError, match="cannot be changed"):
        config.check_dynamic({}, {"listener.name.login.ssl.keystore.location": "a.pem"})
