"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from differential.peer import Peer
from differential.scripts import differential, newest
from drumlin.config.keys import broker_keys, topic_keys

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
_NODE = "1"


def describe(
    peer: Peer, kind: int, name: str, keys: list[str] | None = None, **fields: Any
) -> None:
    """Compare one resource's configuration."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    peer.ask(resources=[resource], **fields)


@differential("describe_configs")
def test_describe_topic(peer: Peer) -> None:
    topic = peer.topic(configs={"retention.ms": "5000", "cleanup.policy": "compact"})
    describe(peer, TOPIC, topic)
    describe(peer, TOPIC, topic, include_synonyms=True)
    describe(peer, TOPIC, topic, ["retention.ms", "no.such.key", "segment.bytes"])
    describe(peer, TOPIC, topic, [])


@differential("describe_configs", versions=[newest("describe_configs")])
def test_describe_documentation(peer: Peer) -> None:
    topic = peer.topic()
    describe(peer, TOPIC, topic, ["retention.ms"], include_documentation=True)
    describe(peer, BROKER, _NODE, ["log.retention.ms"], include_documentation=True)
    peer.note("a key without effect in Drumlin")
    describe(peer, TOPIC, topic, ["preallocate"], include_documentation=True)


@differential("describe_configs")
def test_describe_what_is_not_there(peer: Peer) -> None:
    describe(peer, TOPIC, peer.unique("unknown"))
    describe(peer, TOPIC, "")
    describe(peer, TOPIC, "a b")
    for name in ("9", "x", "", "-1"):
        describe(peer, BROKER, name, ["num.io.threads"])
        describe(peer, BROKER_LOGGER, name)
    for kind in (0, 1, 3, 99, -1):
        describe(peer, kind, "x")
    peer.ask(resources=[])


@differential("describe_configs")
def test_the_same_resource_twice(peer: Peer) -> None:
    topic = peer.topic()
    resource = {"resource_type": TOPIC, "resource_name": topic}
    keys = (["retention.ms"], ["segment.bytes"])
    peer.ask(resources=[resource | {"configuration_keys": each} for each in keys])


@differential("describe_configs")
def test_describe_broker(peer: Peer) -> None:
    describe(peer, BROKER, _NODE)
    describe(peer, BROKER, _NODE, ["log.retention.hours", "no.such.key"], include_synonyms=True)


@differential("describe_configs", versions=[newest("describe_configs")])
def test_describe_broker_with_synonyms(peer: Peer) -> None:
    describe(peer, BROKER, _NODE, include_synonyms=True)


@differential("describe_configs")
def test_describe_group(peer: Peer) -> None:
    describe(peer, GROUP, peer.unique("group"))
    describe(peer, GROUP, "")


def _alter(peer: Peer, kind: int, name: str, *configs: tuple[str, str | None], **more: Any) -> None:
    entries = [{"name": key, "value": value} for key, value in configs]
    resource = {"resource_type": kind, "resource_name": name, "configs": entries}
    peer.ask(resources=[resource], **{"validate_only": False} | more)


def _topic_overrides(peer: Peer, topic: str) -> None:
    """What is set now, told by the sources."""
    keys = ["cleanup.policy", "retention.ms", "segment.bytes", "compression.type"]
    peer.settle()
    resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": keys}
    peer.ask("describe_configs", newest("describe_configs"), resources=[resource])


_WRONG_VALUES: tuple[tuple[str, str | None], ...] = (
    ("no.such.key", "1"),
    ("retention.ms", "soon"),
    ("retention.ms", "-2"),
    ("retention.ms", ""),
    ("retention.ms", None),
    ("cleanup.policy", "burn"),
    ("cleanup.policy", ""),
    ("compression.type", "brotli"),
    ("segment.bytes", "1"),
    ("segment.bytes", "99999999999"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("preallocate", "maybe"),
    ("", "1"),
)


@differential("alter_configs")
def test_alter_topic(peer: Peer) -> None:
    """It replaces everything that is set."""
    topic = peer.topic(configs={"retention.ms": "5000"})
    _alter(peer, TOPIC, topic, ("segment.bytes", "1048577"))
    _topic_overrides(peer, topic)
    _alter(peer, TOPIC, topic, ("compression.type", "lz4"), validate_only=True)
    _topic_overrides(peer, topic)
    _alter(peer, TOPIC, topic)
    _topic_overrides(peer, topic)
    for wrong in _WRONG_VALUES:
        peer.note(str(wrong))
        _alter(peer, TOPIC, topic, wrong)
    _alter(peer, TOPIC, topic, ("retention.ms", "1"), ("retention.ms", "2"))
    _topic_overrides(peer, topic)


@differential("alter_configs")
def test_alter_what_is_not_there(peer: Peer) -> None:
    """Not one resource twice: Kafka's handler throws then, and no answer comes."""
    for name in (peer.unique("unknown"), "", "a b"):
        for key, value in (("retention.ms", "1"), ("retention.ms", "x"), ("no.such.key", "1")):
            peer.note(f"{name!r} {key}={value}")
            _alter(peer, TOPIC, name, (key, value))
    for name in ("9", "x"):
        _alter(peer, BROKER, name, ("log.cleaner.threads", "1"))
    for kind in (0, 1, 99):
        _alter(peer, kind, "x", ("a", "b"))
    peer.ask(resources=[], validate_only=False)


def _change(
    peer: Peer, kind: int, name: str, *changes: tuple[str, int, str | None], **more: Any
) -> None:
    entries = [{"name": key, "config_operation": op, "value": value} for key, op, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": entries}
    peer.ask(resources=[resource], **{"validate_only": False} | more)


@differential("incremental_alter_configs")
def test_change_topic(peer: Peer) -> None:
    topic = peer.topic(configs={"retention.ms": "5000"})
    for change in (
        ("segment.bytes", SET, "1048577"),
        ("retention.ms", DELETE, None),
        ("retention.ms", DELETE, None),
        ("cleanup.policy", APPEND, "compact"),
        ("cleanup.policy", APPEND, "compact"),
        ("cleanup.policy", SUBTRACT, "delete"),
        ("cleanup.policy", SUBTRACT, "compact"),
        ("cleanup.policy", DELETE, "ignored"),
    ):
        peer.note(str(change))
        _change(peer, TOPIC, topic, change)
        _topic_overrides(peer, topic)


@differential("incremental_alter_configs")
def test_change_topic_wrongly(peer: Peer) -> None:
    """Not with an unknown operation: that makes Kafka's controller step down."""
    topic = peer.topic()
    for key, value in _WRONG_VALUES:
        peer.note(f"{key}={value}")
        _change(peer, TOPIC, topic, (key, SET, value))
    for change in (
        ("retention.ms", APPEND, "1"),
        ("retention.ms", SUBTRACT, "1"),
        ("cleanup.policy", APPEND, "burn"),
        ("cleanup.policy", APPEND, None),
        ("no.such.key", DELETE, None),
        ("no.such.key", APPEND, "1"),
    ):
        peer.note(str(change))
        _change(peer, TOPIC, topic, change)
    _change(peer, TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    _change(peer, TOPIC, topic, ("retention.ms", SET, "1"), ("segment.bytes", SET, "x"))
    _change(peer, TOPIC, topic)
    _change(peer, TOPIC, topic, ("compression.type", SET, "lz4"), validate_only=True)
    _topic_overrides(peer, topic)


@differential("incremental_alter_configs")
def test_change_what_is_not_there(peer: Peer) -> None:
    for name in (peer.unique("unknown"), "", "a b"):
        for operation in (SET, APPEND, DELETE):
            for key, value in (("retention.ms", "1"), ("retention.ms", "x"), ("no.such.key", "1")):
                peer.note(f"{name!r} {key}={value} {operation}")
                _change(peer, TOPIC, name, (key, operation, value))
    for name in ("9", "x"):
        _change(peer, BROKER, name, ("log.cleaner.threads", SET, "1"))
    for kind in (0, 1, 99):
        _change(peer, kind, "x", ("a", SET, "b"))
    peer.ask(resources=[], validate_only=False)
    resource = {"resource_type": TOPIC, "resource_name": peer.topic(), "configs": []}
    peer.ask(resources=[resource, resource], validate_only=False)


@differential("incremental_alter_configs")
def test_change_broker(peer: Peer) -> None:
    """Dynamic keys may change, for one broker and for all; the others are refused."""
    for name in (_NODE, ""):
        for change in (
            ("log.cleaner.threads", SET, "2"),
            ("log.cleaner.threads", DELETE, None),
            ("num.partitions", SET, "2"),
            ("log.dirs", SET, "/nowhere"),
            ("broker.id", SET, "5"),
            ("log.retention.ms", SET, "soon"),
            ("no.such.key", SET, "1"),
            ("log.cleaner.threads", SET, "0"),
        ):
            peer.note(f"{name!r} {change}")
            _change(peer, BROKER, name, change, validate_only=True)


_NEWEST_CHANGE = [newest("incremental_alter_configs")]
_SOME_VALUES = ("", "x", "1", "-1", "1000000", "compact")


@differential("incremental_alter_configs", versions=_NEWEST_CHANGE)
def test_change_every_key_of_a_broker(peer: Peer) -> None:
    """Keys of topics, too: a broker does not know them."""
    dynamic = _dynamic_keys()
    for name in (_NODE, ""):
        for number, key in enumerate(_all_keys()):
            has_all = key in dynamic and name == _NODE
            _change_key(peer, name, key, _SOME_VALUES if has_all else ("1",))
            if key in dynamic or number % 4 == 0:
                _delete_key(peer, name, key)


@pytest.mark.deep
@differential("incremental_alter_configs", versions=_NEWEST_CHANGE)
def test_change_every_key_of_a_broker_to_all_values(peer: Peer) -> None:
    """What is left out above, because the configuration of one node has met it."""
    dynamic = _dynamic_keys()
    for name in (_NODE, ""):
        for number, key in enumerate(_all_keys()):
            if key in dynamic:
                if name == "":
                    _change_key(peer, name, key, (each for each in _SOME_VALUES if each != "1"))
            elif number % 4:
                _delete_key(peer, name, key)


def _dynamic_keys() -> set[str]:
    return {name for name, key in broker_keys().items() if key.is_dynamic}


def _all_keys() -> list[str]:
    kafkas = {name for name, key in broker_keys().items() if key.origin != "drumlin"}
    return sorted(kafkas | topic_keys().keys())


def _change_key(peer: Peer, name: str, key: str, values: Iterable[str]) -> None:
    for value in values:
        peer.note(f"{name!r} {key}={value}")
        _change(peer, BROKER, name, (key, SET, value), validate_only=True)


def _delete_key(peer: Peer, name: str, key: str) -> None:
    peer.note(f"{name!r} {key}, deleted")
    _change(peer, BROKER, name, (key, DELETE, None), validate_only=True)


_STOCK = "org.apache.kafka.common"
_CHANGES_OF_BROKERS: tuple[dict[str, str], ...] = (
    {"metric.reporters": f"{_STOCK}.metrics.JmxReporter"},
    {"metric.reporters": f"{_STOCK}.metrics.JmxReporter,x"},
    {"principal.builder.class": f"{_STOCK}.security.authenticator.DefaultKafkaPrincipalBuilder"},
    {"ssl.engine.factory.class": f"{_STOCK}.security.ssl.DefaultSslEngineFactory"},
    {"log.local.retention.bytes": "100"},
    {"log.local.retention.bytes": "100", "log.retention.bytes": "50"},
    {"log.local.retention.bytes": "-1", "log.retention.bytes": "50"},
    {"log.local.retention.ms": "100", "log.retention.ms": "50"},
    {"log.local.retention.ms": "-1", "log.retention.ms": "-1"},
    {"log.local.retention.ms": "-2", "log.retention.ms": "5"},
    {"log.local.retention.ms": "100", "log.retention.ms": "-1"},
    {"log.cleaner.min.compaction.lag.ms": "100", "log.cleaner.max.compaction.lag.ms": "50"},
    {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "1048576"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
    {"max.connections.per.ip.overrides": "127.0.0.1:-5"},
    {"max.connections.per.ip.overrides": "127.0.0.1"},
    {"cordoned.log.dirs": "*"},
    {"cordoned.log.dirs": "*,x"},
    {"LOG.CLEANUP.POLICY": "burn"},
    {"": "1"},
    {"log.cleanup.policy": "compact,compact"},
    {"log.cleanup.policy": "compact, delete"},
    {"log.cleanup.policy": "compact,"},
)


@differential("incremental_alter_configs", versions=_NEWEST_CHANGE)
def test_change_several_keys_of_a_broker(peer: Peer) -> None:
    for name in (_NODE, ""):
        for changes in _CHANGES_OF_BROKERS:
            peer.note(f"{name!r} {changes}")
            given = ((key, SET, value) for key, value in changes.items())
            _change(peer, BROKER, name, *given, validate_only=True)
        for operation in (APPEND, SUBTRACT):
            for key in ("log.cleanup.policy", "cleanup.policy", "log.retention.ms", "super.users"):
                for value in ("compact", "delete", "burn", ""):
                    peer.note(f"{name!r} {key} {operation} {value}")
                    _change(peer, BROKER, name, (key, operation, value), validate_only=True)


@differential("alter_configs", versions=[newest("alter_configs")])
def test_alter_broker(peer: Peer) -> None:
    # KRaft has set this for all brokers, and does not let go of it.
    kept = {"": {"min.insync.replicas": "1"}, _NODE: {}}
    for name in (_NODE, ""):
        for changes in (
            *_CHANGES_OF_BROKERS,
            {"log.cleanup.policy": "burn"},
            {"log.dirs": "/nowhere"},
            {"ssl.keystore.location": "/nowhere"},
            {"zookeeper.connect": "x"},
            {"num.io.threads": "100"},
        ):
            peer.note(f"{name!r} {changes}")
            given = kept[name] | changes
            _alter(peer, BROKER, name, *given.items(), validate_only=True)


_OF_A_LISTENER = (
    ("num.io.threads", "x"),
    ("num.io.threads", "100"),
    ("log.dirs", "x"),
    ("node.id", "7"),
    ("ssl.keystore.type", "JKS"),
    ("ssl.keystore.location", "/nowhere"),
    ("ssl.engine.factory.class", "x"),
    ("principal.builder.class", "x"),
    ("sasl.jaas.config", "x"),
    ("gssapi.sasl.jaas.config", "x"),
    ("log.retention.ms", "x"),
    ("log.retention.ms", "0"),
    ("max.connections", "5"),
    ("max.connections", "x"),
    ("max.connections", "0"),
    ("max.connection.creation.rate", "5"),
    ("max.connection.creation.rate", "0"),
    ("no.such.key", "1"),
    ("zookeeper.connect", "x"),
)


@differential("incremental_alter_configs", versions=_NEWEST_CHANGE)
def test_change_keys_of_a_listener(peer: Peer) -> None:
    for name in (_NODE, ""):
        for listener in ("plaintext", "PLAINTEXT", "nobodys", "", "a.b"):
            for key, value in _OF_A_LISTENER:
                peer.note(f"{name!r} {listener!r} {key}={value}")
                full = f"listener.name.{listener}.{key}"
                _change(peer, BROKER, name, (full, SET, value), validate_only=True)
        for key in ("listener.name.", "listener.name.max.connections"):
            peer.note(f"{name!r} {key}")
            _change(peer, BROKER, name, (key, SET, "x"), validate_only=True)


@differential("incremental_alter_configs", versions=_NEWEST_CHANGE)
def test_odd_keys_of_a_broker_are_shown(peer: Peer) -> None:
    """A key of no release, or of another one, is taken and hidden; a listener's has a type."""
    for_all = {
        "listener.name.plaintext.max.connections": "50",
        "zookeeper.connect": "nobody:1",
        "log.message.format.version": "2.0",
        "cleanup.policy": "compact",
        "no.such.key": "1",
    }
    for_one = for_all | {
        "listener.name.plaintext.ssl.keystore.type": "JKS",
        "listener.name.plaintext.ssl.keystore.password": "secret",
        "listener.name.nobodys.num.io.threads": "9",
        "listener.name.nobodys.no.such.key": "9",
    }
    try:
        for name, given in (("", for_all), (_NODE, for_one)):
            changes = ((key, SET, value) for key, value in given.items())
            _change(peer, BROKER, name, *changes)
        peer.settle()
        for name in ("", _NODE):
            asked = {
                "resource_type": BROKER,
                "resource_name": name,
                "configuration_keys": [*for_one],
            }
            version = newest("describe_configs")
            peer.ask("describe_configs", version, resources=[asked], include_synonyms=True)
    finally:
        for name in ("", _NODE):
            _change(peer, BROKER, name, *((key, DELETE, None) for key in for_one))
        peer.settle()


@differential("incremental_alter_configs", versions=_NEWEST_CHANGE)
def test_broker_defaults_show_in_topics(peer: Peer) -> None:
    """What is set for a broker, and for all, is what topics without a value of theirs have."""
    topic = peer.topic()
    key, keys = "log.segment.delete.delay.ms", ["file.delete.delay.ms"]
    for name, value in (("", "61000"), (_NODE, "62000"), (_NODE, None), ("", None)):
        operation = DELETE if value is None else SET
        _change(peer, BROKER, name, (key, operation, value))
        peer.settle()
        for kind, of in ((TOPIC, topic), (BROKER, _NODE)):
            asked = {"resource_type": kind, "resource_name": of, "configuration_keys": [key, *keys]}
            version = newest("describe_configs")
            peer.ask("describe_configs", version, resources=[asked], include_synonyms=True)


@differential("incremental_alter_configs")
def test_change_group(peer: Peer) -> None:
    group = peer.unique("group")
    for change in (
        ("consumer.session.timeout.ms", SET, "50000"),
        ("consumer.session.timeout.ms", SET, "1"),
        ("consumer.session.timeout.ms", SET, "x"),
        ("no.such.key", SET, "1"),
        ("consumer.session.timeout.ms", DELETE, None),
    ):
        peer.note(str(change))
        _change(peer, GROUP, group, change)
    _change(peer, GROUP, "", ("consumer.session.timeout.ms", SET, "50000"))
    _change(peer, GROUP, group, ("consumer.session.timeout.ms", APPEND, "50000"))


@differential("alter_configs")
def test_alter_group(peer: Peer) -> None:
    group = peer.unique("group")
    _alter(peer, GROUP, group, ("consumer.session.timeout.ms", "50000"))
    peer.settle()
    asked = {"resource_type": GROUP, "resource_name": group, "configuration_keys": None}
    peer.ask("describe_configs", newest("describe_configs"), resources=[asked])
    for key, value in (("consumer.session.timeout.ms", "1"), ("no.such.key", "1")):
        peer.note(f"{key}={value}")
        _alter(peer, GROUP, group, (key, value))
    _alter(peer, GROUP, group)
    _alter(peer, GROUP, "", ("consumer.session.timeout.ms", "50000"))


@differential("incremental_alter_configs", versions=_NEWEST_CHANGE)
def test_client_metrics(peer: Peer) -> None:
    """Subscriptions to metrics of clients (KIP-714)."""
    name, version = peer.unique("subscription / of all"), newest("describe_configs")

    def shown(named: str) -> None:
        resource = {"resource_type": CLIENT_METRICS, "resource_name": named}
        asked = [resource | {"configuration_keys": None}]
        peer.ask("describe_configs", version, resources=asked, include_synonyms=True)

    shown(name)
    shown("")
    for named, key, operation, value in (
        ("", "interval.ms", SET, "5000"),
        (name, "no.such.key", SET, "5000"),
        (name, "no.such.key", DELETE, None),
        (name, "metrics", APPEND, "org.apache."),
        (name, "metrics", SUBTRACT, "org.apache."),
        (name, "metrics", SET, None),
        *(
            (name, "interval.ms", SET, each)
            for each in ("99", "100", "3600000", "3600001", "x", "")
        ),
        *((name, "metrics", SET, each) for each in ("", "*", "org.a,org.b", " ")),
        *((name, "match", SET, each) for each in _PATTERNS),
    ):
        peer.note(f"{key} {operation} {value}")
        _change(peer, CLIENT_METRICS, named, (key, operation, value), validate_only=True)
    peer.note("one that is stored")
    _change(peer, CLIENT_METRICS, name, ("interval.ms", SET, "200"), ("match", SET, "client_id=a"))
    peer.settle()
    shown(name)
    peer.ask("list_config_resources", 0)
    peer.ask("list_config_resources", 1, resource_types=[CLIENT_METRICS])
    _change(peer, CLIENT_METRICS, name, ("interval.ms", DELETE, None))
    peer.settle()
    shown(name)
    _change(peer, CLIENT_METRICS, name, ("match", DELETE, None))
    peer.settle()
    peer.ask("list_config_resources", 0)


_PATTERNS = (
    *("", "client_id=a", "client_id", "client_id=", "x=y", "client_id=[", "client_id=a=b"),
    *(" client_id = a ", "client_id=a,client_id=b", "client_source_port=1,client_software_name=.*"),
)
