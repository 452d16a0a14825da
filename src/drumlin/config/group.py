"""A group's own configuration, and the limits that the broker's configuration sets for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drumlin.config.broker import BrokerConfig
from drumlin.config.config_error import ConfigError
from drumlin.config.durations import duration_ms
from drumlin.config.keys import group_keys
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: Group key -> the broker keys of its minimum and maximum.
_LIMITS: Final = {
    "consumer.heartbeat.interval.ms": (
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    "consumer.session.timeout.ms": (
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    "share.heartbeat.interval.ms": (
        "group.share.min.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    ),
    "share.session.timeout.ms": (
        "group.share.min.session.timeout.ms",
        "group.share.max.session.timeout.ms",
    ),
    "consumer.assignment.interval.ms": (
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
    "share.assignment.interval.ms": (
        "group.share.min.assignment.interval.ms",
        "group.share.max.assignment.interval.ms",
    ),
    "share.delivery.count.limit": (
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ),
    "share.partition.max.record.locks": (
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ),
    "streams.assignment.interval.ms": (
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ),
    "share.record.lock.duration.ms": (
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    "streams.heartbeat.interval.ms": (
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ),
    "streams.session.timeout.ms": (
        "group.streams.min.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ),
}
_KINDS: Final = ("consumer", "share", "streams")
_RESET: Final = "share.auto.offset.reset"
_RESETS: Final = ("earliest", "latest")
_BY_DURATION: Final = "by_duration:"


def validate_group_overrides(overrides: Mapping[str, str], config: BrokerConfig) -> None:
    """Check a group's own configuration, as requested by a client: names and values.

    Raises:
        KafkaError: INVALID_CONFIG.
    """
    keys = group_keys()
    for name in overrides:
        if name not in keys:
            raise KafkaError(ErrorCode.invalid_config, f"groups have no key {name}")
    for name, text in overrides.items():
        try:
            value = keys[name].parse(text)
        except ConfigError as error:
            raise KafkaError(ErrorCode.invalid_config, str(error)) from None
        if name in _LIMITS:
            assert isinstance(value, int)
            _check_limits(name, value, config)
        elif name == _RESET:
            _check_reset(text)
    for kind in _KINDS:
        _check_session(kind, overrides, config)


def _check_reset(text: str) -> None:
    """Check the first position of a share group: at an end of the log, or at a time in the past."""
    if text in _RESETS:
        return
    try:
        if text.startswith(_BY_DURATION) and duration_ms(text.removeprefix(_BY_DURATION)) >= 0:
            return
    except ValueError:
        pass
    message = (
        f"{_RESET} = {text}: must be earliest, latest, or {_BY_DURATION} and a duration in ISO 8601"
    )
    raise KafkaError(ErrorCode.invalid_config, message)


def _check_session(kind: str, overrides: Mapping[str, str], config: BrokerConfig) -> None:
    """Check that a session lasts longer than the interval between two heartbeats."""
    keys = (f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms")
    if not any(key in overrides for key in keys):
        return
    session, heartbeat = (
        int(overrides[key]) if key in overrides else config.value(f"group.{key}") for key in keys
    )
    assert isinstance(session, int)
    assert isinstance(heartbeat, int)
    if session <= heartbeat:
        message = f"{keys[0]} = {session}: must be more than {keys[1]}, which is {heartbeat}"
        raise KafkaError(ErrorCode.invalid_config, message)


def _check_limits(name: str, value: int, config: BrokerConfig) -> None:
    least_key, greatest_key = _LIMITS[name]
    least, greatest = config.value(least_key), config.value(greatest_key)
    assert isinstance(least, int)
    assert isinstance(greatest, int)
    if value < least:
        message = f"{name} = {value}: must be at least {least_key}, which is {least}"
        raise KafkaError(ErrorCode.invalid_config, message)
    if value > greatest:
        message = f"{name} = {value}: must be at most {greatest_key}, which is {greatest}"
        raise KafkaError(ErrorCode.invalid_config, message)
