"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: codes and values as of Apache Kafka
4.3.
"""

# ruff: noqa: E501  a case stays on its line

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.conftest import Ask

Create = Callable[..., str]

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
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
        (TOPIC, "", "invalid_topic_exception", "a topic needs a name"),
        (BROKER, "2", "invalid_request", "this is broker 1, not 2"),
        (BROKER, "-1", "invalid_request", "this is broker 1, not -1"),
        (BROKER, "x", "invalid_request", "brokers have numbers, and 'x' is not one"),
        (LOGGER, "", "invalid_request", "the broker must be named by its number"),
        (LOGGER, "2", "invalid_request", "this is broker 1, not 2"),
        (LOGGER, "x", "invalid_request", "brokers have numbers, and 'x' is not one"),
        (GROUP, "", "invalid_request", "a group must be named"),
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
    assert {each["error_message"] for each in results} == {
        "the request names a resource of a type that does not exist"
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
        ([("retention.ms", APPEND, "5")], "invalid_config", "retention.ms is not a list, so append means nothing for it"),
        ([("retention.ms", SUBTRACT, "5")], "invalid_config", "retention.ms is not a list, so subtract means nothing for it"),
        ([("cleanup.policy", APPEND, "foo")], "invalid_config", 'cleanup.policy = "delete,foo": must be a list of compact, delete'),
        ([("cleanup.policy", APPEND, "")], "invalid_config", 'cleanup.policy = "delete,": must be a list of compact, delete'),
        ([("cleanup.policy", APPEND, None)], "invalid_request", "no value is given for cleanup.policy"),
        ([("retention.ms", SET, None), ("segment.ms", SET, None)], "invalid_request", "no value is given for retention.ms, segment.ms"),
        ([("retention.ms", SET, "x")], "invalid_config", 'retention.ms = "x": must be a whole number (64 bits) of at least -1'),
        ([("retention.ms", SET, "")], "invalid_config", 'retention.ms = "": must be a whole number (64 bits) of at least -1'),
        ([("foo", SET, "5")], "invalid_config", "topics have no key foo"),
        ([("", SET, "5")], "invalid_config", "topics have no key "),
        ([("retention.ms", SET, "5"), ("retention.ms", DELETE, None)], "invalid_request", "given more than once: retention.ms"),
        ([("retention.ms", 9, "5")], "unknown_server_error", None),
        ([("retention.ms", -1, "5")], "unknown_server_error", None),
        ([("min.compaction.lag.ms", SET, "5"), ("max.compaction.lag.ms", SET, "2")], "invalid_config", "min.compaction.lag.ms (5) is above max.compaction.lag.ms (2)"),
        ([("retention.ms", SET, "7"), ("foo", SET, "1")], "invalid_config", "topics have no key foo"),
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
        (TOPIC, "nowhere", "unknown_topic_or_partition", "there is no topic nowhere"),
        (TOPIC, "", "invalid_request", "a topic must be named: there is no configuration for all topics"),
        (TOPIC, "..", "invalid_topic_exception", "'..' is no name for a topic"),
        (BROKER, "7", "invalid_request", "this is broker 1, not 7"),
        (BROKER, "-1", "invalid_request", "this is broker 1, not -1"),
        (BROKER, "x", "invalid_request", "brokers have numbers, and 'x' is not one"),
        (GROUP, "", "invalid_request", "a group must be named: there is no configuration for all groups"),
        (0, "x", "invalid_request", "no resources of type 0 are configured this way"),
        (99, "x", "invalid_request", "no resources of type 99 are configured this way"),
        (CLIENT_METRICS, "", "invalid_request", "a subscription must be named: there is none for all"),
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
        ("invalid_request", "named more than once in one request")
    ] * 2


@pytest.mark.parametrize(
    ("api", "version"), [("alter_configs", 2), ("incremental_alter_configs", 1)]
)
def test_more_keys_than_anything_has(ask: Ask, create: Create, api: str, version: int) -> None:
    configs = [{"name": f"key-{each}", "value": "1"} for each in range(2_001)]
    for config in configs if version == 1 else ():
        config["config_operation"] = 0
    resource = {"resource_type": TOPIC, "resource_name": create(), "configs": configs}
    (answer,) = ask(api, version, resources=[resource], validate_only=False)["responses"]
    assert answer["error_code"] == "policy_violation"


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
        "no value is given for segment.ms",
    )
    assert (
        replace(ask, TOPIC, name, ("segment.ms", "1"), ("segment.ms", "2"))[0] == "invalid_request"
    )
    assert values(ask, TOPIC, name, "segment.ms") == {"segment.ms": ("6000", 1)}
    assert replace(ask, LOGGER, "1", ("root", "ERROR")) == (
        "invalid_request",
        "no resources of type 8 are configured this way",
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


@pytest.mark.parametrize(
    ("name", "change", "code", "message"),
    [
        ("1", ("log.dirs", SET, "/x"), "invalid_request", "cannot be changed while a broker runs: log.dirs"),
        ("", ("log.retention.hours", SET, "3"), "invalid_request", "cannot be changed while a broker runs: log.retention.hours"),
        ("", ("ssl.keystore.location", SET, "/x"), "invalid_request", "can be set for one broker only, not for all: ssl.keystore.location"),
        ("1", ("log.cleaner.backoff.ms", SET, "-1"), "invalid_request", 'log.cleaner.backoff.ms = "-1": must be a whole number (64 bits) of at least 0'),
        ("", ("log.cleaner.backoff.ms", SET, "x"), "invalid_request", 'log.cleaner.backoff.ms = "x": must be a whole number (64 bits) of at least 0'),
        ("1", ("log.cleaner.backoff.ms", SET, None), "invalid_request", "no value is given for log.cleaner.backoff.ms"),
        ("1", ("log.cleaner.backoff.ms", SUBTRACT, "3"), "invalid_config", "log.cleaner.backoff.ms is not a list, so subtract means nothing for it"),
        ("", ("log.retention.ms", SET, "0"), "invalid_request", 'log.retention.ms = "0": must be -1 (forever) or at least 1'),
        ("", ("log.roll.ms", SET, "0"), "invalid_request", 'log.roll.ms = "0": must be at least 1'),
        ("", ("log.roll.jitter.ms", SET, "-1"), "invalid_request", 'log.roll.jitter.ms = "-1": must be at least 0'),
        ("", ("log.cleaner.dedupe.buffer.size", SET, "5"), "invalid_request", 'log.cleaner.dedupe.buffer.size = "5": must be at least 1 MiB (1048576) for each of log.cleaner.threads'),
        ("", ("max.connections.per.ip", SET, "0"), "invalid_request", 'max.connections.per.ip = "0": can be 0 only where max.connections.per.ip.overrides lets some client in'),
        ("", ("num.io.threads", SET, "100"), "invalid_request", 'num.io.threads = "100": can go from 8 to between 4 and 16 in one step'),
        ("1", ("log.cleaner.backoff.ms", SET, "15001"), "none", None),
        ("1", ("log.cleanup.policy", APPEND, "compact"), "none", None),
        ("1", ("log.dirs", DELETE, None), "none", None),
        ("", ("log.retention.ms", SET, "-5"), "none", None),
        ("1", ("leader.replication.throttled.rate", SET, "3"), "none", None),
        ("1", ("nobody.knows.this", SET, "1"), "none", None),
        ("1", ("listener.name.plaintext.ssl.keystore.location", SET, "/x"), "none", None),
        ("", ("listener.name.plaintext.ssl.keystore.location", SET, "/x"), "invalid_request", "can be set for one broker only, not for all: listener.name.plaintext.ssl.keystore.location"),
        ("1", ("ssl.keystore.password", SET, "secret"), "invalid_request", 'ssl.keystore.password = "...": can be changed only for a listener, as listener.name.NAME.ssl.keystore.password'),
        ("", ("zookeeper.connect", SET, "nobody:1"), "none", None),
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
        "consumer.session.timeout.ms = 1: must be at least group.consumer.min.session.timeout.ms, which is 45000",
    )
    assert increment(ask, GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "50000")) == (
        "invalid_config",
        "consumer.heartbeat.interval.ms = 50000: must be at most group.consumer.max.heartbeat.interval.ms, which is 15000",
    )
    assert increment(ask, GROUP, "g", ("foo", SET, "1")) == (
        "invalid_config",
        "groups have no key foo",
    )


@pytest.mark.parametrize(
    ("name", "change", "code", "message"),
    [
        ("1", ("root", SET, "XX"), "invalid_config", "XX is not a level for logger root: levels are TRACE, DEBUG, INFO, WARN, ERROR, FATAL"),
        ("1", ("nope.x", SET, "INFO"), "invalid_config", "there is no logger nope.x"),
        ("1", ("root", APPEND, "INFO"), "invalid_request", "the level of a logger is not a list, so append means nothing for it"),
        ("1", ("root", DELETE, None), "invalid_request", "the root logger must have a level of its own"),
        ("2", ("root", SET, "INFO"), "invalid_request", "this is broker 1, not 2"),
        ("", ("root", SET, "INFO"), "invalid_request", "brokers have numbers, and '' is not one"),
    ],
)  # fmt: skip
def test_logger_changes_refused(
    ask: Ask, name: str, change: tuple[str, int, str | None], code: str, message: str
) -> None:
    assert increment(ask, LOGGER, name, change) == (code, message)


def test_log_levels(ask: Ask) -> None:
    logger = "drumlin.broker.net.connection"
    assert values(ask, LOGGER, "1", "root", logger) == {"root": ("INFO", 6), logger: ("INFO", 6)}
    assert increment(ask, LOGGER, "1", (logger, SET, "DEBUG"), validate_only=True)[0] == "none"
    assert values(ask, LOGGER, "1", logger) == {logger: ("INFO", 6)}
    assert increment(ask, LOGGER, "1", (logger, SET, "DEBUG")) == ("none", None)
    assert values(ask, LOGGER, "1", logger) == {logger: ("DEBUG", 6)}
    assert increment(ask, LOGGER, "1", (logger, DELETE, None)) == ("none", None)
    assert values(ask, LOGGER, "1", logger) == {logger: ("INFO", 6)}
