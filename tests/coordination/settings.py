"""The configuration that these tests hand in: Kafka's defaults, to be changed one by one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Settings:
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_retention_minutes: int = 10_080
    offsets_topic_compression_codec: int = 0
    offsets_topic_num_partitions: int = 50
