"""What must hold for a configuration to be changed: shared by AlterConfigs and its incremental
sibling.

A change is a function from what is stored to what to store (`metadata.store.Alteration`), so
that it is decided, and checked as a whole, on the newest state. Sentences and codes are Kafka's,
which refuses the same mistake with another code for a broker than for a topic.
"""

from __future__ import annotations

import enum
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from drumlin.config.errors import ConfigError
from drumlin.config.group import validate_group_overrides
from drumlin.config.keys import PER_BROKER, Key, broker_keys, group_keys, topic_keys
from drumlin.config.topic import validate_overrides
from drumlin.config.values import Refused, ValueType, format_value, parse
from drumlin.metadata.image import Resource, ResourceType
from drumlin.metadata.names import check_topic_name
from drumlin.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.broker.broker import Broker
    from drumlin.config.broker import BrokerConfig
    from drumlin.metadata.image import ClusterImage
    from drumlin.metadata.store import Alteration

_log = logging.getLogger(__name__)

BROKER_LOGGER: Final = 8


class Operation(enum.IntEnum):
    """What to do with a key; the numbers are the protocol's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One key of a request."""

    operation: Operation
    key: str
    value: str | None


def check_changes(changes: Sequence[KeyChange]) -> None:
    """What must hold for any resource.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    counts = Counter(change.key for change in changes)
    if any(count > 1 for count in counts.values()):
        raise KafkaError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    nulls = [
        change.key
        for change in changes
        if change.value is None and change.operation is not Operation.DELETE
    ]
    if nulls:
        message = f"Null value not supported for : {', '.join(nulls)}"
        raise KafkaError(ErrorCode.invalid_request, message)


def check_resource(broker: Broker, type_number: int, name: str) -> Resource:
    """The resource that a request names. Names of topics and groups are checked with the change.

    Raises:
        KafkaError: there is no such resource, or no configuration of it that is stored.
    """
    match type_number:
        case ResourceType.TOPIC:
            return Resource(ResourceType.TOPIC, name)
        case ResourceType.BROKER:
            if not name:
                return Resource(ResourceType.BROKER, "")
            node_id = parse_node_id(name, "Node id")
            if node_id != broker.node_id:
                message = f"Unexpected broker id, expected {broker.node_id}, but received {name}"
                raise KafkaError(ErrorCode.invalid_request, message)
            return Resource(ResourceType.BROKER, str(node_id))
        case ResourceType.GROUP:
            return Resource(ResourceType.GROUP, name)
        case _:
            raise KafkaError(ErrorCode.invalid_request, f"Unknown resource type {type_number}")


def parse_node_id(name: str, what: str) -> int:
    """The number of a broker, as the name of a resource.

    Raises:
        KafkaError: INVALID_REQUEST, when it is none.
    """
    try:
        node_id = parse(ValueType.INT, name)
    except Refused:
        message = f"{what} must be an integer, but it is: {name}"
        raise KafkaError(ErrorCode.invalid_request, message) from None
    assert isinstance(node_id, int)
    return node_id


def take_over_stored_configs(config: BrokerConfig, image: ClusterImage) -> None:
    """Apply what was changed while this broker, or an earlier run of it, was up.

    What the configuration given at start makes impossible is passed over, and said.
    """
    try:
        config.update_dynamic(image.broker_configs(""), image.broker_configs(str(config.node_id)))
    except ConfigError as error:
        _log.error("configuration changed at run time is not applied: %s", error)


def replacement(broker: Broker, resource: Resource, configs: Mapping[str, str]) -> Alteration:
    """An alteration after which `configs` is all that is set."""

    def alter(current: Mapping[str, str]) -> Mapping[str, str | None]:
        _check_wanted(broker, resource, configs, configs)
        return {**dict.fromkeys(current.keys() - configs.keys()), **configs}

    return alter


def increment(broker: Broker, resource: Resource, changes: Sequence[KeyChange]) -> Alteration:
    """An alteration that does what `changes` say, key by key."""

    def alter(current: Mapping[str, str]) -> Mapping[str, str | None]:
        altered = {change.key: _new_value(broker, resource, current, change) for change in changes}
        given = {key: value for key, value in altered.items() if value is not None}
        kept = {key: value for key, value in current.items() if key not in altered}
        _check_wanted(broker, resource, {**kept, **given}, given)
        return altered

    return alter


def _new_value(
    broker: Broker, resource: Resource, current: Mapping[str, str], change: KeyChange
) -> str | None:
    if change.operation is Operation.DELETE:
        return None
    assert change.value is not None
    if change.operation is Operation.SET:
        return change.value
    key = _KEYS[resource.type]().get(change.key)
    if key is None or key.value_type is not ValueType.LIST:
        raise _not_a_list(resource, change)
    now = current.get(change.key)
    if now is None:
        now = _default(broker.config, resource, key)
    entries = now.split(",") if now else []
    for entry in change.value.split(","):
        if change.operation is Operation.SUBTRACT:
            entries = [each for each in entries if each != entry]
        elif entry not in entries:
            entries.append(entry)
    return ",".join(entries)


_KEYS: Final = {
    ResourceType.TOPIC: topic_keys,
    ResourceType.BROKER: broker_keys,
    ResourceType.GROUP: group_keys,
}


def _not_a_list(resource: Resource, change: KeyChange) -> KafkaError:
    if resource.type is ResourceType.BROKER:
        what = change.operation.name.lower()
        message = f"Config value {what} is not allowed for config key: {change.key}"
    else:
        message = f"Can't {change.operation.name} to key {change.key} because its type is not LIST."
    return KafkaError(ErrorCode.invalid_config, message)


def _default(config: BrokerConfig, resource: Resource, key: Key) -> str:
    if resource.type is ResourceType.TOPIC:
        return format_value(config.topic_defaults()[key.name]) or ""
    if resource.type is ResourceType.BROKER:
        return format_value(config.value(key.name)) or ""
    return key.default or ""


def _check_topic_name(name: str) -> None:
    if not name:
        message = "Default topic resources are not allowed."
        raise KafkaError(ErrorCode.invalid_request, message)
    check_topic_name(name)


def _check_wanted(
    broker: Broker, resource: Resource, wanted: Mapping[str, str], given: Mapping[str, str]
) -> None:
    """Check what a configuration would be, and for a broker what is set anew."""
    if resource.type is ResourceType.TOPIC:
        _check_topic_name(resource.name)
        validate_overrides(wanted, broker.config.topic_defaults())
        if resource.name not in broker.metadata.image.topics:
            message = f"The topic '{resource.name}' does not exist."
            raise KafkaError(ErrorCode.unknown_topic_or_partition, message)
    elif resource.type is ResourceType.GROUP:
        if not resource.name:
            message = "Default group resources are not allowed."
            raise KafkaError(ErrorCode.invalid_request, message)
        validate_group_overrides(wanted, broker.config)
    else:
        _check_broker(broker.config, resource, wanted, given)


def _check_broker(
    config: BrokerConfig, resource: Resource, wanted: Mapping[str, str], given: Mapping[str, str]
) -> None:
    # Keys that nobody knows are stored like any other, as in Kafka: a plugin might read them.
    keys = broker_keys()
    known = [keys[name] for name in given if name in keys]
    fixed = [key.name for key in known if not key.is_dynamic]
    if fixed:
        message = f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
        raise KafkaError(ErrorCode.invalid_request, message)
    if not resource.name:
        per_broker = [key.name for key in known if key.update == PER_BROKER]
        if per_broker:
            message = (
                "Cannot update these configs at default cluster level, broker id must be "
                f"specified: [{', '.join(per_broker)}]"
            )
            raise KafkaError(ErrorCode.invalid_request, message)
    try:
        if resource.name:
            config.check_dynamic(config.cluster_wide, wanted)
        else:
            config.check_dynamic(wanted, config.per_broker)
    except ConfigError as error:
        raise KafkaError(ErrorCode.invalid_request, error.message) from None
