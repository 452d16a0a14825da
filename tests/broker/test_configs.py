"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: what Apache Kafka 4.3 answered."""

# ruff: noqa: E501  a sentence of Kafka's stays on its line

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.conftest import Ask

Create = Callable[..., str]

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(
    ask: Ask, resource_type: int, name: str, *keys: str, version: int = 4, **fields: Any
) -> Any:
    resource = {
        "resource_type": resource_type,
        "resource_name": name,
        "configuration_keys": list(keys) or None,
    }
    request = {"include_synonyms": True, "include_documentation": False, **fields}
    (result,) = ask("describe_configs", version, resources=[resource], **request)["results"]
    return result


def values(ask: Ask, resource_type: int, name: str, *keys: str) -> dict[str, tuple[str, int]]:
    """Value and source of some keys."""
    configs = describe(ask, resource_type, name, *keys)["configs"]
    return {each["name"]: (each["value"], each["config_source"]) for each in configs}


def increment(
    ask: Ask,
    resource_type: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
    version: int = 1,
) -> tuple[str, str | None]:
    resource = {
        "resource_type": resource_type,
        "resource_name": name,
        "configs": [
            {"name": key, "config_operation": operation, "value": value}
            for key, operation, value in changes
        ],
    }
    (response,) = ask(
        "incremental_alter_configs", version, resources=[resource], validate_only=validate_only
    )["responses"]
    assert (response["resource_type"], response["resource_name"]) == (resource_type, name)
    return response["error_code"], response["error_message"]


def replace(
    ask: Ask,
    resource_type: int,
    name: str,
    *configs: tuple[str, str | None],
    validate_only: bool = False,
    version: int = 2,
) -> tuple[str, str | None]:
    resource = {
        "resource_type": resource_type,
        "resource_name": name,
        "configs": [{"name": key, "value": value} for key, value in configs],
    }
    (response,) = ask("alter_configs", version, resources=[resource], validate_only=validate_only)[
        "responses"
    ]
    return response["error_code"], response["error_message"]


@pytest.fixture
def restored(ask: Ask) -> Iterator[None]:
    """Takes back what a test has changed for the broker."""
    yield
    for name in ("", "1"):
        assert replace(ask, BROKER, name) == ("none", None)


# -- describe ------------------------------------------------------------------------------


def test_a_topic(ask: Ask, create: Create) -> None:
    name = create(retention_ms="5000")
    result = describe(ask, TOPIC, name)
    assert (result["error_code"], result["error_message"]) == ("none", "")
    entries = {each["name"]: each for each in result["configs"]}
    assert len(entries) == 33
    assert entries["retention.ms"] == {
        "name": "retention.ms",
        "value": "5000",
        "read_only": False,
        "config_source": 1,
        "is_sensitive": False,
        "synonyms": [{"name": "retention.ms", "value": "5000", "source": 1}],
        "config_type": 5,
        "documentation": None,
    }
    assert entries["max.message.bytes"]["synonyms"] == [
        {"name": "message.max.bytes", "value": "1048588", "source": 5}
    ]
    # Kafka leaves out synonyms that stand before the key's own name.
    assert entries["segment.ms"]["synonyms"] == []
    assert entries["segment.ms"]["value"] == "604800000"
    types = {
        "cleanup.policy": 7,
        "preallocate": 1,
        "min.cleanable.dirty.ratio": 6,
        "compression.type": 2,
        "segment.bytes": 3,
    }
    assert {key: entries[key]["config_type"] for key in types} == types


def test_some_keys_only(ask: Ask, create: Create) -> None:
    name = create()
    assert set(values(ask, TOPIC, name, "retention.ms", "nope")) == {"retention.ms"}
    resource = {"resource_type": TOPIC, "resource_name": name, "configuration_keys": []}
    (result,) = ask("describe_configs", 4, resources=[resource])["results"]
    assert len(result["configs"]) == 33


@pytest.mark.parametrize(
    ("resource_type", "name", "code", "message"),
    [
        (TOPIC, "nowhere", "unknown_topic_or_partition", ""),
        (TOPIC, "", "invalid_topic_exception", "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "2", "invalid_request", "Unexpected broker id, expected 1 or empty string, but received 2"),
        (BROKER, "-1", "invalid_request", "Unexpected broker id, expected 1 or empty string, but received -1"),
        (BROKER, "x", "invalid_request", "Broker id must be an integer, but it is: x"),
        (LOGGER, "", "invalid_request", "Broker id must not be empty"),
        (LOGGER, "2", "invalid_request", "Unexpected broker id, expected 1 but received 2"),
        (LOGGER, "x", "invalid_request", "Broker id must be an integer, but it is: x"),
        (GROUP, "", "invalid_request", "Group name must not be empty"),
    ],
)  # fmt: skip
def test_describe_refused(ask: Ask, resource_type: int, name: str, code: str, message: str) -> None:
    result = describe(ask, resource_type, name)
    assert (result["error_code"], result["error_message"]) == (code, message)
    assert result["configs"] == []


@pytest.mark.parametrize("resource_type", [0, 1, 3, 99, -1])
def test_an_unknown_type_refuses_all(ask: Ask, create: Create, resource_type: int) -> None:
    name = create()
    resources = [
        {"resource_type": each, "resource_name": name, "configuration_keys": None}
        for each in (TOPIC, resource_type)
    ]
    results = ask("describe_configs", 4, resources=resources)["results"]
    assert [each["error_code"] for each in results] == ["invalid_request"] * 2
    assert {each["error_message"][:41] for each in results} == {
        "This most likely occurs because of a requ"
    }


def test_the_broker(ask: Ask) -> None:
    for name in ("1", "01"):
        entries = {each["name"]: each for each in describe(ask, BROKER, name)["configs"]}
        assert len(entries) == 340
    hours = entries["log.retention.hours"]
    assert (hours["value"], hours["read_only"], hours["config_source"]) == ("168", True, 5)
    assert hours["synonyms"] == [{"name": "log.retention.hours", "value": "168", "source": 5}]
    unset = entries["log.retention.ms"]
    assert (unset["value"], unset["read_only"], unset["synonyms"]) == (None, False, [])
    password = entries["sasl.jaas.config"]
    assert (password["value"], password["is_sensitive"], password["config_type"]) == (None, True, 9)
    given = entries["offsets.topic.num.partitions"]
    assert given["synonyms"] == [
        {"name": "offsets.topic.num.partitions", "value": "2", "source": 4},
        {"name": "offsets.topic.num.partitions", "value": "50", "source": 5},
    ]


def test_a_group(ask: Ask) -> None:
    entries = {each["name"]: each for each in describe(ask, GROUP, "g")["configs"]}
    assert len(entries) == 17
    assert entries["consumer.session.timeout.ms"]["synonyms"] == [
        {"name": "group.consumer.session.timeout.ms", "value": "45000", "source": 5}
    ]
    assert entries["share.auto.offset.reset"]["synonyms"] == [
        {"name": "share.auto.offset.reset", "value": "latest", "source": 5}
    ]


@pytest.mark.parametrize("version", range(1, 5))
def test_what_is_asked_for(ask: Ask, create: Create, version: int) -> None:
    name = create()
    result = describe(ask, TOPIC, name, "retention.ms", version=version, include_synonyms=False)
    (entry,) = result["configs"]
    assert entry["synonyms"] == []
    assert ("config_type" in entry) == (version >= 3)
    if version >= 3:
        result = describe(
            ask, TOPIC, name, "retention.ms", version=version, include_documentation=True
        )
        assert result["configs"][0]["documentation"]


# -- change topics -------------------------------------------------------------------------


def test_lists_grow_and_shrink(ask: Ask, create: Create) -> None:
    name = create()

    def change(operation: int, value: str, key: str = "cleanup.policy") -> tuple[str, int]:
        assert increment(ask, TOPIC, name, (key, operation, value)) == ("none", None)
        return values(ask, TOPIC, name, key)[key]

    assert change(APPEND, "compact") == ("delete,compact", 1)
    assert change(APPEND, "compact") == ("delete,compact", 1)
    assert change(SUBTRACT, "delete") == ("compact", 1)
    assert change(SUBTRACT, "delete") == ("compact", 1)
    assert change(SUBTRACT, "compact") == ("", 1)
    assert change(DELETE, "") == ("delete", 5)
    throttled = "leader.replication.throttled.replicas"
    assert change(APPEND, "0:1,1:1", throttled) == ("0:1,1:1", 1)


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ([("retention.ms", APPEND, "5")], "invalid_config", "Can't APPEND to key retention.ms because its type is not LIST."),
        ([("retention.ms", SUBTRACT, "5")], "invalid_config", "Can't SUBTRACT to key retention.ms because its type is not LIST."),
        ([("cleanup.policy", APPEND, "foo")], "invalid_config", "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"),
        ([("cleanup.policy", APPEND, "")], "invalid_config", "Configuration 'cleanup.policy' values must not be empty."),
        ([("cleanup.policy", APPEND, None)], "invalid_request", "Null value not supported for : cleanup.policy"),
        ([("retention.ms", SET, None), ("segment.ms", SET, None)], "invalid_request", "Null value not supported for : retention.ms, segment.ms"),
        ([("retention.ms", SET, "x")], "invalid_config", "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ([("retention.ms", SET, "")], "invalid_config", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
        ([("foo", SET, "5")], "invalid_config", "Unknown topic config name: foo"),
        ([("", SET, "5")], "invalid_config", "Unknown topic config name: "),
        ([("retention.ms", SET, "5"), ("retention.ms", DELETE, None)], "invalid_request", "Error due to duplicate config keys"),
        ([("retention.ms", 9, "5")], "unknown_server_error", None),
        ([("retention.ms", -1, "5")], "unknown_server_error", None),
        ([("min.compaction.lag.ms", SET, "5"), ("max.compaction.lag.ms", SET, "2")], "invalid_config", "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (2)"),
        ([("retention.ms", SET, "7"), ("foo", SET, "1")], "invalid_config", "Unknown topic config name: foo"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("validate_only", [False, True])
def test_topic_changes_refused(
    ask: Ask, create: Create, changes: Any, code: str, message: str | None, validate_only: bool
) -> None:
    name = create()
    answer = increment(ask, TOPIC, name, *changes, validate_only=validate_only)
    assert answer == (code, message)
    assert values(ask, TOPIC, name, "retention.ms") == {"retention.ms": ("604800000", 5)}


def test_deleting_what_is_not_set(ask: Ask, create: Create) -> None:
    name = create()
    for key in ("retention.ms", "foo"):
        assert increment(ask, TOPIC, name, (key, DELETE, None)) == ("none", None)


@pytest.mark.parametrize(
    ("resource_type", "name", "code", "message"),
    [
        (TOPIC, "nowhere", "unknown_topic_or_partition", "The topic 'nowhere' does not exist."),
        (TOPIC, "", "invalid_request", "Default topic resources are not allowed."),
        (TOPIC, "..", "invalid_topic_exception", "Topic name is invalid: '..' is not allowed"),
        (BROKER, "7", "invalid_request", "Unexpected broker id, expected 1, but received 7"),
        (BROKER, "-1", "invalid_request", "Unexpected broker id, expected 1, but received -1"),
        (BROKER, "x", "invalid_request", "Node id must be an integer, but it is: x"),
        (GROUP, "", "invalid_request", "Default group resources are not allowed."),
        (0, "x", "invalid_request", "Unknown resource type 0"),
        (99, "x", "invalid_request", "Unknown resource type 99"),
    ],
)  # fmt: skip
def test_resources_refused(
    ask: Ask, resource_type: int, name: str, code: str, message: str
) -> None:
    assert increment(ask, resource_type, name) == (code, message)
    assert replace(ask, resource_type, name) == (code, message)


def test_each_resource_by_itself(ask: Ask, create: Create) -> None:
    good, bad = create("good"), create("bad")
    resources = [
        {
            "resource_type": TOPIC,
            "resource_name": name,
            "configs": [{"name": key, "config_operation": SET, "value": "7000"}],
        }
        for name, key in ((bad, "foo"), (good, "retention.ms"))
    ]
    answer = ask("incremental_alter_configs", 1, resources=resources, validate_only=False)
    assert [each["error_code"] for each in answer["responses"]] == ["invalid_config", "none"]
    assert values(ask, TOPIC, good, "retention.ms") == {"retention.ms": ("7000", 1)}


@pytest.mark.parametrize(
    ("api", "version"), [("incremental_alter_configs", 1), ("alter_configs", 2)]
)
def test_a_resource_given_twice(ask: Ask, create: Create, api: str, version: int) -> None:
    """Apache Kafka never answers the old API: this is meant to differ."""
    resource = {"resource_type": TOPIC, "resource_name": create(), "configs": []}
    answer = ask(api, version, resources=[resource, resource], validate_only=False)
    assert [(each["error_code"], each["error_message"]) for each in answer["responses"]] == [
        ("invalid_request", "Each resource must appear at most once.")
    ] * 2


def test_only_validated(ask: Ask, create: Create) -> None:
    name = create()
    change = ("retention.ms", SET, "9000")
    assert increment(ask, TOPIC, name, change, validate_only=True) == ("none", None)
    assert replace(ask, TOPIC, name, ("retention.ms", "9000"), validate_only=True)[0] == "none"
    assert values(ask, TOPIC, name, "retention.ms") == {"retention.ms": ("604800000", 5)}


def test_replacing_forgets_the_rest(ask: Ask, create: Create) -> None:
    name = create(retention_ms="5000")
    assert replace(ask, TOPIC, name, ("segment.ms", "6000")) == ("none", None)
    assert values(ask, TOPIC, name, "retention.ms", "segment.ms") == {
        "retention.ms": ("604800000", 5),
        "segment.ms": ("6000", 1),
    }
    assert replace(ask, TOPIC, name, ("foo", "1"))[0] == "invalid_config"
    assert replace(ask, TOPIC, name, ("segment.ms", None)) == (
        "invalid_request",
        "Null value not supported for : segment.ms",
    )
    assert (
        replace(ask, TOPIC, name, ("segment.ms", "1"), ("segment.ms", "2"))[0] == "invalid_request"
    )
    assert values(ask, TOPIC, name, "segment.ms") == {"segment.ms": ("6000", 1)}
    assert replace(ask, LOGGER, "1", ("root", "ERROR")) == (
        "invalid_request",
        "Unknown resource type 8",
    )


@pytest.mark.parametrize(
    ("api", "versions"), [("alter_configs", 3), ("incremental_alter_configs", 2)]
)
def test_every_version(ask: Ask, create: Create, api: str, versions: int) -> None:
    name = create()
    for version in range(versions):
        if api == "alter_configs":
            assert replace(ask, TOPIC, name, ("retention.ms", "1"), version=version)[0] == "none"
        else:
            assert (
                increment(ask, TOPIC, name, ("retention.ms", SET, "1"), version=version)[0]
                == "none"
            )


# -- change the broker, groups, loggers ----------------------------------------------------

_DYNAMIC = "for configuration Invalid dynamic configuration"


@pytest.mark.parametrize(
    ("name", "change", "code", "message"),
    [
        ("1", ("log.dirs", SET, "/x"), "invalid_request", "Cannot update these configs dynamically: [log.dirs]"),
        ("", ("log.retention.hours", SET, "3"), "invalid_request", "Cannot update these configs dynamically: [log.retention.hours]"),
        ("", ("ssl.keystore.location", SET, "/x"), "invalid_request", "Cannot update these configs at default cluster level, broker id must be specified: [ssl.keystore.location]"),
        ("1", ("log.cleaner.backoff.ms", SET, "-1"), "invalid_request", "Invalid value -1 for configuration log.cleaner.backoff.ms: Value must be at least 0"),
        ("", ("log.cleaner.backoff.ms", SET, "x"), "invalid_request", "Invalid value x for configuration log.cleaner.backoff.ms: Not a number of type LONG"),
        ("1", ("log.cleaner.backoff.ms", SET, None), "invalid_request", "Null value not supported for : log.cleaner.backoff.ms"),
        ("1", ("log.cleaner.backoff.ms", SUBTRACT, "3"), "invalid_config", "Config value subtract is not allowed for config key: log.cleaner.backoff.ms"),
        ("", ("log.retention.ms", SET, "0"), "invalid_request", "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ("", ("log.roll.ms", SET, "0"), "invalid_request", "requirement failed: log.roll.ms must be greater than or equal to 1"),
        ("", ("log.roll.jitter.ms", SET, "-1"), "invalid_request", "requirement failed: log.roll.jitter.ms must be greater than or equal to 0"),
        ("", ("log.cleaner.dedupe.buffer.size", SET, "5"), "invalid_request", "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."),
        ("", ("max.connections.per.ip", SET, "0"), "invalid_request", "requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."),
        ("", ("num.io.threads", SET, "100"), "invalid_request", f"Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed for num.io.threads=100, value should not be greater than double the current value 8 {_DYNAMIC}"),
        ("1", ("log.cleaner.backoff.ms", SET, "15001"), "none", None),
        ("1", ("log.cleanup.policy", APPEND, "compact"), "none", None),
        ("1", ("log.dirs", DELETE, None), "none", None),
        ("", ("log.retention.ms", SET, "-5"), "none", None),
        ("1", ("leader.replication.throttled.rate", SET, "3"), "none", None),
        ("1", ("nobody.knows.this", SET, "1"), "none", None),
        ("1", ("listener.name.plaintext.ssl.keystore.location", SET, "/x"), "none", None),
    ],
)  # fmt: skip
def test_broker_changes(
    ask: Ask, name: str, change: tuple[str, int, str | None], code: str, message: str | None
) -> None:
    assert increment(ask, BROKER, name, change, validate_only=True) == (code, message)


@pytest.mark.usefixtures("restored")
def test_a_change_of_the_broker_has_its_effect(ask: Ask, create: Create) -> None:
    name = create()
    for_all, for_one = ("log.retention.ms", SET, "70000"), ("log.retention.ms", SET, "80000")
    assert increment(ask, BROKER, "", for_all) == ("none", None)
    assert values(ask, TOPIC, name, "retention.ms") == {"retention.ms": ("70000", 3)}
    assert increment(ask, BROKER, "1", for_one) == ("none", None)
    assert values(ask, TOPIC, name, "retention.ms") == {"retention.ms": ("80000", 2)}
    (entry,) = describe(ask, BROKER, "1", "log.retention.ms")["configs"]
    assert (entry["value"], entry["config_source"]) == ("80000", 2)
    assert entry["synonyms"] == [
        {"name": "log.retention.ms", "value": "80000", "source": 2},
        {"name": "log.retention.ms", "value": "70000", "source": 3},
        {"name": "log.retention.hours", "value": "168", "source": 5},
    ]
    assert values(ask, BROKER, "") == {"log.retention.ms": ("70000", 3)}
    assert increment(ask, BROKER, "1", ("log.retention.ms", DELETE, None)) == ("none", None)
    assert values(ask, TOPIC, name, "retention.ms") == {"retention.ms": ("70000", 3)}


@pytest.mark.usefixtures("restored")
def test_what_nobody_knows_is_kept_and_hidden(ask: Ask) -> None:
    assert increment(ask, BROKER, "1", ("nobody.knows.this", SET, "secret")) == ("none", None)
    (entry,) = describe(ask, BROKER, "1", "nobody.knows.this")["configs"]
    assert (entry["value"], entry["is_sensitive"], entry["config_type"]) == (None, True, 0)


def test_groups(ask: Ask) -> None:
    session = "consumer.session.timeout.ms"
    assert increment(ask, GROUP, "g", (session, SET, "50000")) == ("none", None)
    assert values(ask, GROUP, "g", session) == {session: ("50000", 8)}
    assert increment(ask, GROUP, "g", (session, SET, "1")) == (
        "invalid_config",
        "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
    )
    assert increment(ask, GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "50000")) == (
        "invalid_config",
        "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms",
    )
    assert increment(ask, GROUP, "g", ("foo", SET, "1")) == (
        "invalid_config",
        "Unknown group config name: foo",
    )


@pytest.mark.parametrize(
    ("name", "change", "code", "message"),
    [
        ("1", ("root", SET, "XX"), "invalid_config", "Cannot set the log level of root to XX as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"),
        ("1", ("nope.x", SET, "INFO"), "invalid_config", "Logger nope.x does not exist!"),
        ("1", ("root", APPEND, "INFO"), "invalid_request", "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        ("1", ("root", DELETE, None), "invalid_request", "Removing the log level of the root logger is not allowed"),
        ("2", ("root", SET, "INFO"), "invalid_request", "Unexpected node id. Expected 1, but received 2"),
        ("", ("root", SET, "INFO"), "invalid_request", "Node id must be an integer, but it is: "),
    ],
)  # fmt: skip
def test_logger_changes_refused(
    ask: Ask, name: str, change: tuple[str, int, str | None], code: str, message: str
) -> None:
    assert increment(ask, LOGGER, name, change) == (code, message)


def test_log_levels(ask: Ask) -> None:
    logger = "drumlin.broker.connection"
    assert values(ask, LOGGER, "1", "root", logger) == {"root": ("INFO", 6), logger: ("INFO", 6)}
    assert increment(ask, LOGGER, "1", (logger, SET, "DEBUG"), validate_only=True)[0] == "none"
    assert values(ask, LOGGER, "1", logger) == {logger: ("INFO", 6)}
    assert increment(ask, LOGGER, "1", (logger, SET, "DEBUG")) == ("none", None)
    assert values(ask, LOGGER, "1", logger) == {logger: ("DEBUG", 6)}
    assert increment(ask, LOGGER, "1", (logger, DELETE, None)) == ("none", None)
    assert values(ask, LOGGER, "1", logger) == {logger: ("INFO", 6)}
