"""The group coordinator's part of the broker's configuration."""

from __future__ import annotations

from typing import Protocol

from drumlin.coordination.groups.every_kind.states import GroupRules


class CoordinatorConfig(GroupRules, Protocol):
    """The configuration that the group coordinator needs; the names are Kafka's keys."""

    @property
    def group_min_session_timeout_ms(self) -> int: ...
    @property
    def group_max_session_timeout_ms(self) -> int: ...
    @property
    def offset_metadata_max_bytes(self) -> int: ...
    @property
    def offsets_commit_timeout_ms(self) -> int: ...
    @property
    def offsets_retention_check_interval_ms(self) -> int: ...
    @property
    def offsets_retention_minutes(self) -> int: ...
    @property
    def offsets_topic_compression_codec(self) -> int: ...
    @property
    def offsets_topic_num_partitions(self) -> int: ...
