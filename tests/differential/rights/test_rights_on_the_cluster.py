"""Configurations, replicas, quotas, and what else is the cluster's."""

from __future__ import annotations

from typing import Any

from differential.rights.asking import Person, each_right
from differential.rights.places import KNOWN, MISSING, OTHER, OTHER_MISSING
from differential.rights.users import NOBODY, ROOT

_TOPIC, _BROKER, _LOGGER, _METRICS, _GROUP = 2, 4, 8, 16, 32
_KEYS = ["retention.ms", "log.retention.ms", "consumer.session.timeout.ms"]
_RESOURCES = (
    *((_TOPIC, name) for name in (KNOWN, OTHER, MISSING, OTHER_MISSING, "not/valid", "")),
    *((_GROUP, name) for name in ("a-group", "other-group", "")),
    *((_BROKER, name) for name in ("1", "", "7", "x")),
    *((_LOGGER, name) for name in ("7", "x")),
)
_WHAT = {_TOPIC: "retention.ms", _GROUP: "consumer.session.timeout.ms"}


def _altered(key: str, **config: Any) -> list[dict[str, Any]]:
    """All resources, with a key that brokers have under another name."""
    return [
        each | {"configs": [{"name": name, "value": "100000", **config}]}
        for each in _resources()
        for name in [f"log.{key}" if each["resource_type"] == _BROKER else key]
    ]


def _with_a_key_twice(**config: Any) -> list[dict[str, Any]]:
    """A topic on which users may have rights, and another."""
    configs = [{"name": "retention.ms", "value": "100000", **config}] * 2
    return [
        {"resource_type": _TOPIC, "resource_name": name, "configs": configs}
        for name in (KNOWN, OTHER)
    ]


def _resources(**fields: Any) -> list[dict[str, Any]]:
    return [{"resource_type": kind, "resource_name": name, **fields} for kind, name in _RESOURCES]


@each_right("describe_configs", "TGC")
def test_describe_configs(person: Person) -> None:
    person.ask(resources=_resources(configuration_keys=_KEYS))
    person.note("an unknown type")
    unknown = {"resource_type": 99, "resource_name": "a", "configuration_keys": []}
    person.ask(resources=[*_resources(configuration_keys=[]), unknown])


@each_right("alter_configs", "TGC")
def test_alter_configs(person: Person) -> None:
    for key in ("retention.ms", "no.such.key"):
        person.note(key)
        resources = [each for each in _altered(key) if each["resource_type"] != _LOGGER]
        person.ask(resources=resources, validate_only=True)
    person.note("a key twice")
    person.ask(resources=_with_a_key_twice(), validate_only=True)
    if person.name in (NOBODY, ROOT):
        person.note("a resource twice")
        person.ask(resources=[*resources, resources[0]], validate_only=True, is_answered=False)


@each_right("incremental_alter_configs", "TGC")
def test_incremental_alter_configs(person: Person) -> None:
    for key in ("retention.ms", "no.such.key"):
        for operation in (0, 3):
            person.note(f"{key}, {operation}")
            resources = _altered(key, config_operation=operation)
            person.ask(resources=resources, validate_only=True)
    person.note("a resource twice")
    person.ask(resources=[*resources, resources[0]], validate_only=True)
    person.note("a key twice")
    person.ask(resources=_with_a_key_twice(config_operation=0), validate_only=True)


@each_right("list_config_resources", "TGC")
def test_list_config_resources(person: Person) -> None:
    for kinds in ([_BROKER], [_LOGGER, _BROKER], [99]):
        person.note(f"{kinds}")
        person.ask(resource_types=kinds)


@each_right("describe_cluster", "C")
def test_describe_cluster(person: Person) -> None:
    for operations in (False, True):
        for endpoint_type in (1, 2, 7):
            person.note(f"operations: {operations}, {endpoint_type}")
            asked = {"include_cluster_authorized_operations": operations}
            person.ask(endpoint_type=endpoint_type, **asked)


@each_right("describe_log_dirs", "TC", [2, 5])
def test_describe_log_dirs(person: Person) -> None:
    """Of topics that are not there: the others grow while tests run."""
    topics = [{"topic": name, "partitions": [0]} for name in (MISSING, OTHER_MISSING)]
    person.ask(topics=topics)


@each_right("alter_replica_log_dirs", "TC")
def test_alter_replica_log_dirs(person: Person) -> None:
    for name in (KNOWN, OTHER, MISSING):
        person.note(name)
        topics = [{"name": name, "partitions": [0, 1]}]
        person.ask(dirs=[{"path": "/nowhere", "topics": topics}])


@each_right("elect_leaders", "TC", [0, 2])
def test_elect_leaders(person: Person) -> None:
    topics = [{"topic": name, "partitions": [0]} for name in (KNOWN, OTHER, MISSING)]
    person.ask(topic_partitions=topics, timeout=1000, election_type=0)
    person.note("an unknown type")
    if person.version:
        person.ask(topic_partitions=topics, timeout=1000, election_type=7)


@each_right("alter_partition_reassignments", "TC")
def test_alter_partition_reassignments(person: Person) -> None:
    partitions = [{"partition_index": 0, "replicas": None}]
    topics = [{"name": name, "partitions": partitions} for name in (KNOWN, OTHER, MISSING)]
    person.ask(topics=topics, timeout=1000)


@each_right("list_partition_reassignments", "TC")
def test_list_partition_reassignments(person: Person) -> None:
    topics = [{"name": name, "partition_indexes": [0]} for name in (KNOWN, OTHER, MISSING)]
    for wanted in (topics, None):
        person.ask(topics=wanted, timeout=1000)


@each_right("unregister_broker", "C")
def test_unregister_broker(person: Person) -> None:
    person.ask(broker_id=99)


@each_right("describe_quorum", "C")
def test_describe_quorum(person: Person) -> None:
    partitions = [{"partition_index": 0}]
    person.ask(topics=[{"topic_name": KNOWN, "partitions": partitions}])


@each_right("update_features", "C")
def test_update_features(person: Person) -> None:
    update = {"feature": "no.such", "max_version_level": 1, "upgrade_type": 1}
    person.ask(timeout=1000, feature_updates=[update], validate_only=True)


@each_right("describe_client_quotas", "C")
def test_describe_client_quotas(person: Person) -> None:
    person.ask(components=[], strict=False)
    person.note("an unknown type")
    unknown = {"entity_type": "planet", "match_type": 0, "match": "mars"}
    person.ask(components=[unknown], strict=True)


@each_right("alter_client_quotas", "C")
def test_alter_client_quotas(person: Person) -> None:
    for kind in ("user", "client-id", "planet"):
        person.note(kind)
        entity = [{"entity_type": kind, "entity_name": "a-name"}]
        rate = {"key": "producer_byte_rate", "value": 1000.0, "remove": False}
        person.ask(entries=[{"entity": entity, "ops": [rate]}], validate_only=True)
