"""The epoch of a target assignment: a record that consumer groups and share groups both have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drumlin.coordination.internal_records.record_schema import INT32, INT64, Field, ValueSchema


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """The epoch of the group that its target assignment was computed for."""

    epoch: int
    timestamp_ms: int = 0
    """When the assignment was computed; 0: it was not."""


TARGET_EPOCH: Final = ValueSchema(
    "target assignment",
    TargetEpoch,
    Field("epoch", INT32),
    Field("timestamp_ms", INT64, tag=0, default=0),
)
