"""The default configuration of brokers for tests.

All other keys have Kafka's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Configuration keys of Kafka with their values.
Config = Mapping[str, str | int | float | bool]

BROKER_DEFAULTS: Final[Config] = {
    # A group need not wait for members that might still join.
    "group.initial.rebalance.delay.ms": 0,
    # Lets a test have a member time out quickly.
    "group.min.session.timeout.ms": 100,
    # The first group or transaction creates one partition instead of 50.
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    # An index takes its full size on file systems without sparse files.
    "log.index.size.max.bytes": 1 << 20,
}


def as_properties(config: Config) -> dict[str, str]:
    """The configuration in Kafka's form: all values as text."""
    return {key: _text(value) for key, value in config.items()}


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
