"""Values of single keys: parsed, refused and written as Apache Kafka 4.3 does."""

# ruff: noqa: E501  a sentence of Kafka's stays on its line

from __future__ import annotations

import pytest

from drumlin.config.errors import ConfigError
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


THROTTLED = (
    "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the "
    "following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cleanup.policy", "foo", "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"),
        ("cleanup.policy", "delete,", "Configuration 'cleanup.policy' values must not be empty."),
        ("segment.bytes", "x", "Invalid value x for configuration segment.bytes: Not a number of type INT"),
        ("segment.bytes", "1", "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"),
        ("segment.bytes", "", "Invalid value  for configuration segment.bytes: Not a number of type INT"),
        ("segment.bytes", "2_000_000", "Invalid value 2_000_000 for configuration segment.bytes: Not a number of type INT"),
        ("segment.bytes", "2147483648", "Invalid value 2147483648 for configuration segment.bytes: Not a number of type INT"),
        ("preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or false"),
        ("compression.type", "x", "Invalid value x for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("compression.gzip.level", "0", "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "55", "Invalid value 55 for configuration compression.lz4.level: Value must be no more than 17"),
        ("min.cleanable.dirty.ratio", "2", "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "x", "Invalid value x for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("retention.ms", "1.5", "Invalid value 1.5 for configuration retention.ms: Not a number of type LONG"),
        ("flush.ms", "99999999999999999999", "Invalid value 99999999999999999999 for configuration flush.ms: Not a number of type LONG"),
        ("message.timestamp.type", "createtime", "Invalid value createtime for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime"),
        ("leader.replication.throttled.replicas", "x", f"Invalid value [x] for configuration leader.replication.throttled.replicas: {THROTTLED}"),
        ("leader.replication.throttled.replicas", "*,0:1", f"Invalid value [*, 0:1] for configuration leader.replication.throttled.replicas: {THROTTLED}"),
    ],
)  # fmt: skip
def test_refused_for_a_topic(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        topic_keys()[name].parse(text)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("log.dirs", "", "Configuration 'log.dirs' must not be empty. Valid values include: any non-empty value"),
        ("log.dirs", "a,,b", "Configuration 'log.dirs' values must not be empty."),
        ("process.roles", "x", "Invalid value x for configuration process.roles: String must be one of: broker, controller"),
        ("group.coordinator.rebalance.protocols", "", "Configuration 'group.coordinator.rebalance.protocols' must not be empty. Valid values include: [consumer, classic, share, streams]"),
        ("group.consumer.migration.policy", "x", "Invalid value x for configuration group.consumer.migration.policy: String must be one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL"),
        ("offsets.topic.replication.factor", "70000", "Invalid value 70000 for configuration offsets.topic.replication.factor: Not a number of type SHORT"),
        ("remote.log.metadata.manager.class.name", "", "Invalid value  for configuration remote.log.metadata.manager.class.name: String must be non-empty"),
        ("ssl.client.auth", "NONE", "Invalid value NONE for configuration ssl.client.auth: String must be one of: required, requested, none"),
    ],
)  # fmt: skip
def test_refused_for_a_broker(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        broker_keys()[name].parse(text)
    assert caught.value.message == message


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
