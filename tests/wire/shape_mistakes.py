"""Mistakes that mypy must find by script/shape_types.py: an ignored error that is none fails.

Nothing imports this; mypy looks at it (see `files` in pyproject.toml).
"""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO, Shape


def of_one_message(shape: Shape) -> None:
    shape("HeartbeatRequest", group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    shape("HeartbeatRequest", group_id="g", generation_id=1)  # type: ignore[call-arg]
    shape("HeartbeatRequest", group_id=1, generation_id=1, member_id="m")  # type: ignore[arg-type]
    shape("HeartbeatResponse", throttle_time=ZERO, error_cod=ErrorCode.none)  # type: ignore[call-arg]
    shape("HeartbeatResponse", throttle_time=5, error_code=ErrorCode.none)  # type: ignore[arg-type]
    shape("HeartbeatAnswer", error_code=ErrorCode.none)  # type: ignore[misc]


def of_several_messages(shape: Shape) -> None:
    shape("PartitionData", partition_index=0)
    shape("PartitionData", partition_indx=0)  # type: ignore[call-arg]
