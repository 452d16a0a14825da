"""A topic's configuration, typed: its own values above the broker's defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from drumlin.config.config_error import ConfigError
from drumlin.config.hints import topic_hint
from drumlin.config.keys import topic_keys
from drumlin.config.values import Value
from drumlin.records.validation.append_rules import AppendRules
from drumlin.wire.error_codes import ErrorCode, KafkaError

_MAX_LONG: Final = 2**63 - 1
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The typed values, with Kafka's defaults, named like Kafka's topic keys with underscores for
    dots.
    """

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = _DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _MAX_LONG
    flush_ms: int = _MAX_LONG
    follower_replication_throttled_replicas: frozenset[str] = frozenset()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: frozenset[str] = frozenset()
    max_compaction_lag_ms: int = _MAX_LONG
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = _MAX_LONG
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * _DAY_MS
    unclean_leader_election_enable: bool = False

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    def append_rules(self) -> AppendRules:
        """The rules that a produced batch must meet to be appended."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return AppendRules(
            max_message_bytes=self.max_message_bytes,
            compression_type=self.compression_type,
            compression_level=levels.get(self.compression_type),
            timestamp_type=self.message_timestamp_type,
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
            is_compacted=self.is_compacted,
        )


_FIELDS: Final = {
    field.name.replace("_", "."): field.name for field in dataclasses.fields(LogConfig)
}
_SETS: Final = (
    "cleanup_policy",
    "follower_replication_throttled_replicas",
    "leader_replication_throttled_replicas",
)
_FOR_TESTS: Final = "internal.segment.bytes"


def log_config(overrides: Mapping[str, str], defaults: Mapping[str, Value]) -> LogConfig:
    """The configuration of a topic: its own values, or else `defaults` (by topic key).

    Raises:
        KafkaError: INVALID_CONFIG, a value is malformed.
    """
    values = {key: value for key, value in defaults.items() if key in _FIELDS}
    parsed = parse_overrides(overrides)
    values.update((key, value) for key, value in parsed.items() if key in _FIELDS)
    if parsed.get(_FOR_TESTS) is not None:
        values["segment.bytes"] = parsed[_FOR_TESTS]
    fields: dict[str, Any] = {_FIELDS[key]: value for key, value in values.items()}
    for name in _SETS:
        if name in fields:
            fields[name] = frozenset(fields[name] or ())
    return LogConfig(**fields)


def parse_overrides(overrides: Mapping[str, str]) -> dict[str, Value]:
    """The values of a topic's own configuration, by key; unknown keys are skipped.

    Raises:
        KafkaError: INVALID_CONFIG, a value is malformed.
    """
    keys = topic_keys()
    try:
        return {name: keys[name].parse(text) for name, text in overrides.items() if name in keys}
    except ConfigError as error:
        raise KafkaError(ErrorCode.invalid_config, str(error)) from None


def validate_overrides(overrides: Mapping[str, str], defaults: Mapping[str, Value]) -> None:
    """Check a topic's own configuration, as requested by a client: names and values.

    Raises:
        KafkaError: INVALID_CONFIG.
    """
    for name in overrides:
        if name not in topic_keys():
            hint = topic_hint(name)
            message = f"topics have no key {name}" + (f"; {hint}" if hint else "")
            raise KafkaError(ErrorCode.invalid_config, message)
    parsed = parse_overrides(overrides)
    if parsed.get("remote.storage.enable"):
        message = "remote.storage.enable: this broker has no tiered storage"
        raise KafkaError(ErrorCode.invalid_config, message)
    config = log_config(overrides, defaults)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        message = (
            f"min.compaction.lag.ms ({config.min_compaction_lag_ms}) is above "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
        )
        raise KafkaError(ErrorCode.invalid_config, message)
