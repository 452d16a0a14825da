"""Every configuration key of Apache Kafka 4.3, and the keys of Kafka 3 that Kafka 4 has removed.

The data is in four tables beside this file, with a row for each key: name, type, default (`-`:
none, `""`: empty), limits (see `values.rule`), update mode, origin, and a sentence of documentation
if the key has an effect here. Only that last column tells which keys have an effect: a broker key
without documentation is accepted and does nothing.

Origins: `kafka-4`; `kafka-3` (removed in 4, accepted so that an old server.properties starts);
`internal` (not listed by Kafka); `dynamic` (set only at run time); `plugin` (read by Kafka's own
plugins); `drumlin` (our own, listed only if given).

The update modes are Kafka's, except for `listeners` and `listener.security.protocol.map`, which
cannot be changed while this broker runs.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drumlin.config.config_error import ConfigError
from drumlin.config.values import Refused, Rule, Value, ValueType, parse, rule

READ_ONLY: Final = "read-only"
PER_BROKER: Final = "per-broker"

_OF_A_LISTENER: Final = re.compile(r"listener\.name\.([^.]*)\.(.+)")
#: Prefixes of keys for a listener or plugin; Kafka accepts any such key.
FREE_PREFIXES: Final = ("listener.name.", "config.providers.", "rlmm.config.", "rsm.config.")


@dataclass(frozen=True, slots=True)
class Key:
    """One configuration key."""

    name: str
    value_type: ValueType
    default: str | None
    rule: Rule | None
    update: str
    origin: str
    documentation: str

    @property
    def has_effect(self) -> bool:
        return bool(self.documentation)

    @property
    def is_internal(self) -> bool:
        return self.origin == "internal"

    @property
    def is_sensitive(self) -> bool:
        return self.value_type is ValueType.PASSWORD

    @property
    def is_dynamic(self) -> bool:
        """Whether the key may change while the broker runs."""
        return self.update != READ_ONLY

    def parse(self, text: str) -> Value:
        """The value of `text` for this key.

        Raises:
            ConfigError: the value is not allowed.
        """
        try:
            value = parse(self.value_type, text)
        except Refused:
            raise ConfigError(self.name, text, self.allowed) from None
        if self.rule is not None and not self.rule.allows(value):
            raise ConfigError(self.name, text, self.allowed)
        if isinstance(value, tuple):
            return tuple(dict.fromkeys(value))
        return value

    @property
    def allowed(self) -> str:
        """The allowed values, described for people."""
        noun = _NOUNS[self.value_type]
        limits = self.rule.allowed if self.rule else ""
        if limits.startswith("one of"):
            return f"must be {limits}"
        return f"must be {noun} {limits}".rstrip()


_NOUNS: Final = {
    ValueType.BOOLEAN: "true or false",
    ValueType.STRING: "text",
    ValueType.INT: "a whole number (32 bits)",
    ValueType.SHORT: "a whole number (16 bits)",
    ValueType.LONG: "a whole number (64 bits)",
    ValueType.DOUBLE: "a number",
    ValueType.LIST: "a list",
    ValueType.CLASS: "a class name",
    ValueType.PASSWORD: "text",
}


def _load(file_name: str) -> dict[str, Key]:
    lines = Path(__file__).with_name(file_name).read_text(encoding="utf-8").splitlines()
    keys = {}
    for line in lines[1:]:
        fields = line.split("\t")
        fields += [""] * (7 - len(fields))
        name, type_name, default, allowed, update, origin, documentation = fields
        value_type = ValueType[type_name.upper()]
        keys[name] = Key(
            name,
            value_type,
            _default_text(default),
            rule(allowed, value_type) if allowed or value_type is ValueType.LIST else None,
            update,
            origin,
            documentation,
        )
    return keys


def _default_text(field: str) -> str | None:
    if field == "-":
        return None
    return "" if field == '""' else field


@functools.cache
def broker_keys() -> dict[str, Key]:
    return _load("broker_keys.tsv")


@functools.cache
def topic_keys() -> dict[str, Key]:
    return _load("topic_keys.tsv")


@functools.cache
def group_keys() -> dict[str, Key]:
    return _load("group_keys.tsv")


@functools.cache
def client_metrics_keys() -> dict[str, Key]:
    return _load("client_metrics_keys.tsv")


def changeable_broker_key(name: str) -> Key | None:
    """The broker key `name`, if Kafka 4 knows it; None for older keys.

    As in Kafka, a change of an unknown key at run time is stored, but has no effect and is not
    shown.
    """
    key = broker_keys().get(name)
    return None if key is None or key.origin in ("kafka-3", "plugin") else key


def of_a_listener(name: str) -> tuple[str, str] | None:
    """The listener and the key, if `name` is a key for one listener."""
    match = _OF_A_LISTENER.fullmatch(name)
    return (match[1], match[2]) if match else None
