"""Configurations as shown by DescribeConfigs: values, their sources and their synonyms.

Pure: reads a `BrokerConfig` and the overrides of a topic or group. It follows Kafka's rules
throughout, even where they surprise: a topic's `retention.ms` that comes from `log.retention.hours`
is shown as a default without synonyms.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from drumlin.config.broker import BrokerConfig
from drumlin.config.keys import (
    Key,
    broker_keys,
    changeable_broker_key,
    client_metrics_keys,
    group_keys,
    of_a_listener,
    topic_keys,
)
from drumlin.config.synonyms import BROKER_SYNONYMS, SAME_THING
from drumlin.config.topic import parse_overrides
from drumlin.config.values import format_value

_UNKNOWN_TYPE: Final = 0


class Source(enum.IntEnum):
    """The source of a value; the numbers are the protocol's."""

    TOPIC = 1
    BROKER = 2
    CLUSTER = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """Another key for the same setting, and its value."""

    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One key of a resource, with its value and the value's source."""

    name: str
    value: str | None
    source: Source
    synonyms: tuple[Synonym, ...] = ()
    is_read_only: bool = False
    is_sensitive: bool = False
    type_number: int = _UNKNOWN_TYPE
    documentation: str | None = None


#: Settings of the authorizer that are shown, as the effect of ACLs depends on them. Kafka hides
#: them, as it does all settings of plugins.
_TOLD: Final = frozenset({"super.users", "allow.everyone.if.no.acl.found"})


def broker_entries(config: BrokerConfig) -> list[ConfigEntry]:
    """All entries of this broker."""
    keys = broker_keys()
    given = {**config.static, **config.cluster_wide, **config.per_broker}
    listed = {key.name for key in keys.values() if key.origin == "kafka-4"}
    entries = []
    for name in sorted(listed | given.keys()):
        is_known = changeable_broker_key(name) is not None
        value = format_value(config.value(name)) if is_known else given.get(name)
        entries.append(_broker_entry(config, name, value, tuple(Source)))
    return entries


def cluster_wide_entries(config: BrokerConfig) -> list[ConfigEntry]:
    """The entries set for all brokers at run time."""
    return [
        _broker_entry(config, name, value, (Source.CLUSTER,))
        for name, value in sorted(config.cluster_wide.items())
    ]


def _broker_entry(
    config: BrokerConfig, name: str, value: str | None, shown: tuple[Source, ...]
) -> ConfigEntry:
    own = changeable_broker_key(name)
    listeners = of_a_listener(name)
    key = changeable_broker_key(listeners[1]) if listeners else own
    is_sensitive = _is_sensitive(name, key)
    synonyms = _synonyms(config, name, is_sensitive)
    return _entry(
        name,
        key,
        None if is_sensitive else value,
        tuple(each for each in synonyms if each.source in shown),
        # Kafka shows keys of one listener as read-only, although they may change.
        is_read_only=own is None or not own.is_dynamic,
    )


def topic_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """All entries of a topic with these overrides."""
    values = {**config.topic_defaults(), **parse_overrides(overrides)}
    entries = []
    for name, key in sorted(topic_keys().items()):
        if key.is_internal and name not in overrides:
            continue
        value = format_value(values[name])
        own = (Synonym(name, value, Source.TOPIC),) if name in overrides else ()
        broker_key = BROKER_SYNONYMS.get(name, ((None, 1),))[0][0]
        inherited = _synonyms(config, broker_key, False) if broker_key else ()
        entries.append(_entry(name, key, value, (*own, *inherited)))
    return entries


def created_topic_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """The new topic's configuration in the response of CreateTopics."""
    defaults = config.topic_defaults()
    entries = []
    for name, key in sorted(topic_keys().items()):
        if name in overrides:
            entries.append(_entry(name, key, overrides[name], (), source=Source.TOPIC))
        elif not key.is_internal:
            source = _source_of_default(config, name)
            entries.append(_entry(name, key, format_value(defaults[name]), (), source=source))
    return entries


def _source_of_default(config: BrokerConfig, topic_key: str) -> Source:
    names = [name for name, _ in BROKER_SYNONYMS.get(topic_key, ())]
    for source, layer in _layers(config):
        if any(name in layer for name in names):
            return source
    return Source.DEFAULT


def group_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """All entries of a group with these overrides."""
    entries = []
    for name, key in sorted(group_keys().items()):
        broker_key = f"group.{name}"
        has_broker_key = broker_key in broker_keys()
        default = format_value(config.value(broker_key)) if has_broker_key else key.default
        value = overrides.get(name, default)
        own = (Synonym(name, value, Source.GROUP),) if name in overrides else ()
        if has_broker_key:
            inherited = _synonyms(config, broker_key, False)
        else:
            inherited = (Synonym(name, default, Source.DEFAULT),)
        entries.append(_entry(name, key, value, (*own, *inherited)))
    return entries


def subscription_entries(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """All entries of a subscription to metrics of clients."""
    entries = []
    for name, key in sorted(client_metrics_keys().items()):
        value = overrides.get(name, key.default)
        own = (Synonym(name, value, Source.CLIENT_METRICS),) if name in overrides else ()
        entries.append(_entry(name, key, value, own))
    return entries


def _entry(
    name: str,
    key: Key | None,
    value: str | None,
    synonyms: tuple[Synonym, ...],
    *,
    source: Source | None = None,
    is_read_only: bool = False,
) -> ConfigEntry:
    if source is None:
        source = synonyms[0].source if synonyms else Source.DEFAULT
    return ConfigEntry(
        name,
        value,
        source,
        synonyms,
        is_read_only,
        _is_sensitive(name, key),
        key.value_type.value if key else _UNKNOWN_TYPE,
        key.documentation or None if key else None,
    )


def _is_sensitive(name: str, key: Key | None) -> bool:
    # A key without a type might be a plugin's password.
    return name not in _TOLD and (key is None or key.is_sensitive)


def _layers(config: BrokerConfig) -> Iterable[tuple[Source, Mapping[str, str]]]:
    return (
        (Source.BROKER, config.per_broker),
        (Source.CLUSTER, config.cluster_wide),
        (Source.STATIC, config.static),
    )


def _synonyms(config: BrokerConfig, name: str, is_sensitive: bool) -> tuple[Synonym, ...]:
    """All configured values of the key and its synonyms, by precedence."""
    names = next((each for each in SAME_THING if name in each), (name,))
    listeners = of_a_listener(name)
    if listeners:
        names = (name, listeners[1])
    found = [
        Synonym(each, None if is_sensitive else layer[each], source)
        for source, layer in _layers(config)
        for each in names
        if each in layer
    ]
    for each in names:
        key = changeable_broker_key(each)
        default = config.default_text(key) if key else None
        if key is not None and default is not None:
            shown = None if is_sensitive else format_value(key.parse(default))
            found.append(Synonym(each, shown, Source.DEFAULT))
    # Kafka leaves out synonyms before the first value of the key itself.
    while found and found[0].name != name:
        del found[0]
    return tuple(found)
