"""The delivery settings of a share group, from the group's or the broker's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from drumlin.broker.parts.group_context import group_setting
from drumlin.broker.parts.parts import BrokerData
from drumlin.broker.share_partitions.reads import READ_COMMITTED
from drumlin.coordination.share.delivery.settings import Settings
from drumlin.metadata.image import Resource, ResourceType


class _Known(NamedTuple):
    """The settings computed last, and the configuration from which they were computed."""

    source: Mapping[str, str]
    settings: Settings
    isolation_level: int


class GroupSettings:
    """One group's settings, computed again when the group's configuration changes."""

    def __init__(self, broker: BrokerData, group_id: str) -> None:
        self._broker = broker
        self._group_id = group_id
        self._known: _Known | None = None

    def delivery(self) -> Settings:
        return self._current().settings

    @property
    def isolation_level(self) -> int:
        return self._current().isolation_level

    @property
    def auto_offset_reset(self) -> str:
        return str(self._value("share.auto.offset.reset"))

    def _current(self) -> _Known:
        source = self._broker.metadata.image.configs(Resource(ResourceType.GROUP, self._group_id))
        if self._known is None or self._known.source is not source:
            self._known = _Known(source, self._delivery(), self._isolation_level())
        return self._known

    def _delivery(self) -> Settings:
        return Settings(
            delivery_count_limit=int(self._value("share.delivery.count.limit")),
            max_record_locks=int(self._value("share.partition.max.record.locks")),
            lock_duration_s=int(self._value("share.record.lock.duration.ms")) / 1000,
            may_renew=bool(self._value("share.renew.acknowledge.enable")),
        )

    def _isolation_level(self) -> int:
        is_committed = self._value("share.isolation.level") == "read_committed"
        return READ_COMMITTED if is_committed else 0

    def _value(self, key: str) -> int | str | bool:
        return group_setting(self._broker, self._group_id, key)
