"""A group's own configuration: the limits that the broker's configuration sets for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from drumlin.config.errors import ConfigError
from drumlin.config.keys import group_keys
from drumlin.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.config.broker import BrokerConfig

#: Group key -> the broker keys of its least and its greatest value.
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


def validate_group_overrides(overrides: Mapping[str, str], config: BrokerConfig) -> None:
    """Check a group's own configuration, names and values, as a client asks for it.

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
