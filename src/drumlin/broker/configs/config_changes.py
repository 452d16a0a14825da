"""Checks of configuration changes: shared by AlterConfigs and IncrementalAlterConfigs.

A change is a function from the stored configuration to the new one (`metadata.store.Alteration`),
so that it is applied to the newest state and the result is checked as a whole. Error codes are
Kafka's: the same mistake has one code for a broker and another for a topic.
"""

from __future__ import annotations

import enum
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drumlin.broker.parts.parts import BrokerData
from drumlin.broker.telemetry.subscriptions import check_subscription
from drumlin.config.broker import BrokerConfig
from drumlin.config.config_error import ConfigError
from drumlin.config.consistency import check_for_one_broker, is_for_one_broker
from drumlin.config.group import validate_group_overrides
from drumlin.config.keys import (
    PER_BROKER,
    Key,
    changeable_broker_key,
    client_metrics_keys,
    group_keys,
    of_a_listener,
    topic_keys,
)
from drumlin.config.topic import validate_overrides
from drumlin.config.values import Refused, ValueType, format_value, parse
from drumlin.metadata.image import ClusterImage, Resource, ResourceType
from drumlin.metadata.names import check_topic_name
from drumlin.metadata.store.store import Alteration
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.schema.types import STRING_BYTES_MAX

_log = logging.getLogger(__name__)

BROKER_LOGGER: Final = 8
#: Characters of a resource's name that are logged; names of groups may be long.
_NAME_LOGGED_MAX: Final = 250
_KEYS: Final = {
    ResourceType.TOPIC: topic_keys,
    ResourceType.GROUP: group_keys,
    ResourceType.CLIENT_METRICS: client_metrics_keys,
}


class Operation(enum.IntEnum):
    """An operation on a key; the numbers are the protocol's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A change of one key."""

    operation: Operation
    key: str
    value: str | None


def check_changes(changes: Sequence[KeyChange]) -> None:
    """Check the rules that apply to every resource.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    counts = Counter(change.key for change in changes)
    repeated = [key for key, count in counts.items() if count > 1]
    if repeated:
        message = f"given more than once: {', '.join(repeated)}"
        raise KafkaError(ErrorCode.invalid_request, message)
    nulls = [
        change.key
        for change in changes
        if change.value is None and change.operation is not Operation.DELETE
    ]
    if nulls:
        message = f"no value is given for {', '.join(nulls)}"
        raise KafkaError(ErrorCode.invalid_request, message)


def check_resource(broker: BrokerData, type_number: int, name: str) -> Resource:
    """The resource that a request names. Names of topics and groups are checked with the change.

    Raises:
        KafkaError: there is no such resource, or its configuration is not stored.
    """
    match type_number:
        case ResourceType.TOPIC:
            return Resource(ResourceType.TOPIC, name)
        case ResourceType.BROKER:
            if not name:
                return Resource(ResourceType.BROKER, "")
            node_id = parse_node_id(name)
            if node_id != broker.node_id:
                message = f"this is broker {broker.node_id}, not {name}"
                raise KafkaError(ErrorCode.invalid_request, message)
            return Resource(ResourceType.BROKER, str(node_id))
        case ResourceType.GROUP | ResourceType.CLIENT_METRICS:
            return Resource(ResourceType(type_number), name)
        case _:
            message = f"no resources of type {type_number} are configured this way"
            raise KafkaError(ErrorCode.invalid_request, message)


def parse_node_id(name: str) -> int:
    """The broker id in the name of a resource.

    Raises:
        KafkaError: INVALID_REQUEST, if it is not a number.
    """
    try:
        node_id = parse(ValueType.INT, name)
    except Refused:
        message = f"brokers have numbers, and {name!r} is not one"
        raise KafkaError(ErrorCode.invalid_request, message) from None
    assert isinstance(node_id, int)
    return node_id


def take_over_stored_configs(config: BrokerConfig, image: ClusterImage) -> None:
    """Apply the configuration changes made at run time, by this or an earlier run of the broker.

    Changes that conflict with the configuration given at start are skipped and logged.
    """
    try:
        config.update_dynamic(image.broker_configs(""), image.broker_configs(str(config.node_id)))
    except ConfigError as error:
        _log.error("configuration changed at run time is not applied: %s", error)


def replacement(broker: BrokerData, resource: Resource, configs: Mapping[str, str]) -> Alteration:
    """An alteration that replaces the whole configuration by `configs`."""

    def alter(current: Mapping[str, str]) -> Mapping[str, str | None]:
        _check_wanted(broker, resource, configs, configs)
        return {**dict.fromkeys(current.keys() - configs.keys()), **configs}

    return alter


def increment(broker: BrokerData, resource: Resource, changes: Sequence[KeyChange]) -> Alteration:
    """An alteration that applies `changes`, key by key."""

    def alter(current: Mapping[str, str]) -> Mapping[str, str | None]:
        altered = {change.key: _new_value(broker, resource, current, change) for change in changes}
        given = {key: value for key, value in altered.items() if value is not None}
        kept = {key: value for key, value in current.items() if key not in altered}
        _check_wanted(broker, resource, {**kept, **given}, given)
        return altered

    return alter


def tell_without_effect(resource: Resource, keys: Iterable[str]) -> None:
    """Log the keys that have no effect here, as is done for the keys given at start."""
    found = {name: _key_of_any_listener(resource, name) for name in keys}
    idle = sorted(name for name, key in found.items() if key is not None and not key.has_effect)
    unknown = sum(key is None for key in found.values())
    if unknown:  # a client may send any name, of any length
        idle.append(f"{unknown} that Kafka does not know")
    if idle:
        kind, name = resource.type.name.lower(), resource.name[:_NAME_LOGGED_MAX]
        _log.warning("%s %r: without effect here: %s", kind, name, ", ".join(idle))


def _new_value(
    broker: BrokerData, resource: Resource, current: Mapping[str, str], change: KeyChange
) -> str | None:
    if change.operation is Operation.DELETE:
        return None
    assert change.value is not None
    if change.operation is Operation.SET:
        return change.value
    # To Kafka no key of a subscription is a list here.
    is_known = resource.type is not ResourceType.CLIENT_METRICS
    key = _key(resource, change.key) if is_known else None
    if key is None or key.value_type is not ValueType.LIST:
        what = change.operation.name.lower()
        message = f"{change.key} is not a list, so {what} means nothing for it"
        raise KafkaError(ErrorCode.invalid_config, message)
    now = current.get(change.key)
    if now is None:
        now = _default(broker.config, resource, key)
    entries = now.split(",") if now else []
    given = dict.fromkeys(change.value.split(","))
    if change.operation is Operation.SUBTRACT:
        return ",".join(each for each in entries if each not in given)
    there = set(entries)
    value = ",".join([*entries, *(each for each in given if each not in there)])
    if len(value.encode()) > STRING_BYTES_MAX:
        message = f"a value of more than {STRING_BYTES_MAX} bytes could not be described any more"
        raise KafkaError(ErrorCode.invalid_config, message)
    return value


def _key(resource: Resource, name: str) -> Key | None:
    if resource.type is ResourceType.BROKER:
        return changeable_broker_key(name)
    return _KEYS[resource.type]().get(name)


def _key_of_any_listener(resource: Resource, name: str) -> Key | None:
    """Like `_key`; of a broker it may be for one listener."""
    parts = of_a_listener(name) if resource.type is ResourceType.BROKER else None
    return _key(resource, name if parts is None else parts[1])


def _default(config: BrokerConfig, resource: Resource, key: Key) -> str:
    if resource.type is ResourceType.TOPIC:
        return format_value(config.topic_defaults()[key.name]) or ""
    if resource.type is ResourceType.BROKER:
        return format_value(config.value(key.name)) or ""
    return key.default or ""


def _check_topic_name(name: str) -> None:
    if not name:
        message = "a topic must be named: there is no configuration for all topics"
        raise KafkaError(ErrorCode.invalid_request, message)
    check_topic_name(name)


def _check_wanted(
    broker: BrokerData, resource: Resource, wanted: Mapping[str, str], given: Mapping[str, str]
) -> None:
    """Check the resulting configuration, and for a broker the keys that change."""
    if resource.type is ResourceType.TOPIC:
        _check_topic_name(resource.name)
        validate_overrides(wanted, broker.config.topic_defaults())
        if resource.name not in broker.metadata.image.topics:
            message = f"there is no topic {resource.name}"
            raise KafkaError(ErrorCode.unknown_topic_or_partition, message)
    elif resource.type is ResourceType.GROUP:
        if not resource.name:
            message = "a group must be named: there is no configuration for all groups"
            raise KafkaError(ErrorCode.invalid_request, message)
        validate_group_overrides(wanted, broker.config)
    elif resource.type is ResourceType.CLIENT_METRICS:
        check_subscription(resource.name, wanted)
    else:
        _check_broker(broker.config, resource, wanted, given)


def _check_broker(
    config: BrokerConfig, resource: Resource, wanted: Mapping[str, str], given: Mapping[str, str]
) -> None:
    # Unknown keys are stored like any other, as in Kafka: a plugin might read them.
    keys = {name: changeable_broker_key(name) for name in given}
    fixed = [name for name, key in keys.items() if key is not None and not key.is_dynamic]
    if fixed:
        message = f"cannot be changed while a broker runs: {', '.join(fixed)}"
        raise KafkaError(ErrorCode.invalid_request, message)
    if not resource.name:
        per_broker = [
            name
            for name, key in keys.items()
            if is_for_one_broker(name) or (key is not None and key.update == PER_BROKER)
        ]
        if per_broker:
            message = f"can be set for one broker only, not for all: {', '.join(per_broker)}"
            raise KafkaError(ErrorCode.invalid_request, message)
    try:
        if resource.name:
            check_for_one_broker(given)
            config.check_dynamic(config.cluster_wide, wanted)
        else:
            config.check_dynamic(wanted, config.per_broker)
    except ConfigError as error:
        raise KafkaError(ErrorCode.invalid_request, str(error)) from None
