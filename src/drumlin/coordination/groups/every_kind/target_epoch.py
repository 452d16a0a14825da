"""The epoch of a target assignment: a record of consumer groups and share groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from drumlin.coordination.internal_records.record_schema import ValueSchema
from drumlin.wire.schema.declaration import Tag
from drumlin.wire.schema.types import Int32, Int64


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """The group epoch for which the target assignment was computed."""

    epoch: Int32
    timestamp_ms: Annotated[Int64, Tag(0)] = 0
    """The time at which the assignment was computed; 0 if none was computed."""


TARGET_EPOCH: Final = ValueSchema[TargetEpoch]("target assignment", TargetEpoch)
