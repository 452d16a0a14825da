"""Values of single keys: parsed, refused and written as Apache Kafka 4.3 does."""

from __future__ import annotations

import pytest

from drumlin.config.config_error import ConfigError
from drumlin.config.keys import broker_keys, group_keys, topic_keys
from drumlin.config.values import Value, format_value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cleanup.policy", "", ()),
        ("cleanup.policy", "delete , compact", ("delete", "compact")),
        ("cleanup.policy", "delete,delete", ("delete",)),
        ("segment.bytes", " 2000000 ", 2_000_000),
        ("segment.bytes", "+2000000", 2_000_000),
        ("unclean.leader.election.enable", " TRUE ", True),
        ("compression.type", " gzip ", "gzip"),
        ("compression.gzip.level", "-1", -1),
        ("min.cleanable.dirty.ratio", "1e-1", 0.1),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
    ],
)
def test_parsed(name: str, text: str, value: Value) -> None:
    assert topic_keys()[name].parse(text) == value


WHOLE = "must be a whole number"
LEVELS = "must be one of uncompressed, zstd, lz4, snappy, gzip, producer"
THROTTLED = "must be a list of PARTITION:BROKER, or *"


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("cleanup.policy", "foo", "must be a list of compact, delete"),
        ("cleanup.policy", "delete,", "must be a list of compact, delete"),
        ("segment.bytes", "x", f"{WHOLE} (32 bits) of at least 1048576"),
        ("segment.bytes", "1", f"{WHOLE} (32 bits) of at least 1048576"),
        ("segment.bytes", "", f"{WHOLE} (32 bits) of at least 1048576"),
        ("segment.bytes", "2_000_000", f"{WHOLE} (32 bits) of at least 1048576"),
        ("segment.bytes", "2147483648", f"{WHOLE} (32 bits) of at least 1048576"),
        ("preallocate", "yes", "must be true or false"),
        ("compression.type", "x", LEVELS),
        ("compression.gzip.level", "0", f"{WHOLE} (32 bits) from 1 to 9, or -1"),
        ("compression.gzip.level", "10", f"{WHOLE} (32 bits) from 1 to 9, or -1"),
        ("compression.lz4.level", "55", f"{WHOLE} (32 bits) from 1 to 17"),
        ("min.cleanable.dirty.ratio", "2", "must be a number from 0 to 1"),
        ("min.cleanable.dirty.ratio", "x", "must be a number from 0 to 1"),
        ("retention.ms", "-2", f"{WHOLE} (64 bits) of at least -1"),
        ("retention.ms", "1.5", f"{WHOLE} (64 bits) of at least -1"),
        ("flush.ms", "99999999999999999999", f"{WHOLE} (64 bits) of at least 0"),
        ("message.timestamp.type", "createtime", "must be one of CreateTime, LogAppendTime"),
        ("leader.replication.throttled.replicas", "x", THROTTLED),
        ("leader.replication.throttled.replicas", "*,0:1", THROTTLED),
    ],
)
def test_refused_for_a_topic(name: str, text: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        topic_keys()[name].parse(text)
    assert str(caught.value) == f'{name} = "{text}": {allowed}'


PROTOCOLS = "must be a list of consumer, classic, share, streams, at least one"
POLICIES = "must be one of DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL"


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("log.dirs", "", "must be a list of non-empty entries, at least one"),
        ("log.dirs", "a,,b", "must be a list of non-empty entries, at least one"),
        ("process.roles", "x", "must be a list of broker, controller, at least one"),
        ("group.coordinator.rebalance.protocols", "", PROTOCOLS),
        ("group.consumer.migration.policy", "x", POLICIES),
        ("offsets.topic.replication.factor", "70000", f"{WHOLE} (16 bits) of at least 1"),
        ("remote.log.metadata.manager.class.name", "", "must be text that is not empty"),
        ("ssl.client.auth", "NONE", "must be one of required, requested, none"),
    ],
)
def test_refused_for_a_broker(name: str, text: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        broker_keys()[name].parse(text)
    assert str(caught.value) == f'{name} = "{text}": {allowed}'


def test_every_default_is_allowed() -> None:
    for keys in (broker_keys(), topic_keys(), group_keys()):
        for key in keys.values():
            if key.default is not None:
                assert format_value(key.parse(key.default)) == key.default, key.name


def test_the_tables_are_whole() -> None:
    kafka_4 = [key for key in broker_keys().values() if key.origin == "kafka-4"]
    assert len(kafka_4) == 340  # as many as DescribeConfigs of a broker lists
    assert len([key for key in topic_keys().values() if not key.is_internal]) == 33
    assert len(group_keys()) == 17


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (1e-3, "0.001"),
        (1e-4, "1.0E-4"),
        (123456789.5, "1.234567895E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e22, "1.0E22"),
        (0.0, "0.0"),
        (("a", "b"), "a,b"),
        ((), ""),
        (True, "true"),
        (None, None),
    ],
)
def test_values_are_written_as_java_does(value: Value, text: str | None) -> None:
    assert format_value(value) == text
