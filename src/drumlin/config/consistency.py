"""What no single key can tell: values that contradict each other, or go too far in one step.

Pure; the sentences are Kafka's, which clients see when they change a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from drumlin.config.errors import ConfigError
from drumlin.config.synonyms import BROKER_SYNONYMS, topic_default

_Values = Mapping[str, Any]
_Given = Mapping[str, str]

_MIB: Final = 1 << 20
_CLEANER_THREADS: Final = "log.cleaner.threads"
_THREADS: Final = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    _CLEANER_THREADS,
)


def check_together(values: _Values, given: _Given) -> None:
    """Whether a configuration makes sense as a whole.

    Raises:
        ConfigError: it does not.
    """
    _check_log(values, given)
    if given.get("broker.id", values["node.id"]) != given.get("node.id", values["node.id"]):
        raise _refused("broker.id", given, "must be the same as node.id where both are given")
    if 0 < values["queued.max.request.bytes"] < values["socket.request.max.bytes"]:
        allowed = "must be at least socket.request.max.bytes, or -1"
        raise _refused("queued.max.request.bytes", given, allowed)
    if values["group.min.session.timeout.ms"] > values["group.max.session.timeout.ms"]:
        allowed = "must not be above group.max.session.timeout.ms"
        raise _refused("group.min.session.timeout.ms", given, allowed)
    exceptions = values["max.connections.per.ip.overrides"].strip()
    if values["max.connections.per.ip"] == 0 and not exceptions:
        allowed = "can be 0 only where max.connections.per.ip.overrides lets somebody in"
        message = (
            "max.connections.per.ip can be set to zero only if "
            "max.connections.per.ip.overrides property is set."
        )
        raise _refused("max.connections.per.ip", given, allowed, message)


def _check_log(values: _Values, given: _Given) -> None:
    if topic_default("retention.ms", values) == 0:
        name = next(name for name, _ in BROKER_SYNONYMS["retention.ms"] if values[name] == 0)
        message = "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
        raise _refused(name, given, "must be -1 (for ever) or at least 1", message)
    for topic_key, least in (("segment.ms", 1), ("segment.jitter.ms", 0)):
        value = topic_default(topic_key, values)
        if isinstance(value, int) and value < least:
            name = BROKER_SYNONYMS[topic_key][0][0]
            message = f"{name} must be greater than or equal to {least}"
            raise _refused(name, given, f"must be at least {least}", message)
    buffer_bytes = values["log.cleaner.dedupe.buffer.size"]
    if buffer_bytes < values[_CLEANER_THREADS] * _MIB:
        allowed = "must be at least 1MB per cleaner thread."
        raise _refused("log.cleaner.dedupe.buffer.size", given, allowed)


def check_change(before: _Values, after: _Values, given: _Given) -> None:
    """Whether a running broker may go from one configuration to the other.

    Raises:
        ConfigError: it may not.
    """
    for name in _THREADS:
        _check_thread_count(name, before[name], after[name], given)
    if after["max.connections"] == 0:
        raise _invalid("max.connections", given, "must be at least 1", "Invalid max.connections 0")


def _check_thread_count(name: str, before: int, after: int, given: _Given) -> None:
    what = f"Dynamic thread count update validation failed for {name}={after}, value should"
    is_cleaner = name == _CLEANER_THREADS
    if after == before:
        return
    if after < max(before // 2, 1):
        reason = f"be at least half the current value {before}"
        message = f"{what} {reason}"
        if is_cleaner:
            message = (
                "Log cleaner threads cannot be reduced to less than half the current value "
                f"{before}"
            )
        raise _invalid(name, given, f"must {reason}", message)
    if after > before * 2:
        reason = f"not be greater than double the current value {before}"
        message = f"{what} {reason}"
        if is_cleaner:
            message = (
                "Log cleaner threads cannot be increased to more than double the current value "
                f"{before}"
            )
        raise _invalid(name, given, f"must {reason}", message)


def _refused(name: str, given: _Given, allowed: str, message: str | None = None) -> ConfigError:
    sentence = f"requirement failed: {message or f'{name} {allowed}'}"
    return ConfigError(name, given.get(name), allowed, sentence)


def _invalid(name: str, given: _Given, allowed: str, message: str) -> ConfigError:
    sentence = (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {message} "
        "for configuration Invalid dynamic configuration"
    )
    return ConfigError(name, given.get(name), allowed, sentence)
