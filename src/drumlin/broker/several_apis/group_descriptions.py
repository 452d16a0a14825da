"""What the answers that describe groups of any kind have in common."""

from __future__ import annotations

from typing import Any, Final

from drumlin.broker.parts.cluster_view import OPERATIONS_NOT_ASKED
from drumlin.wire.error_codes import KafkaError
from drumlin.wire.messages import Shape

#: A bit for each operation on groups: read 3, delete 6, describe 8, and configurations 10, 11.
_GROUP_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def authorized_operations(request: object) -> int:
    """Every client may do everything; but the oldest versions can't ask for it."""
    asked = getattr(request, "include_authorized_operations", False)
    return _GROUP_OPERATIONS if asked else OPERATIONS_NOT_ASKED


def refused_group(shape: Shape, group_id: str, error: KafkaError) -> Any:
    """An error in place of the description of a group with epochs."""
    return shape(
        "DescribedGroup",
        error_code=error.code,
        error_message=error.message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
        authorized_operations=OPERATIONS_NOT_ASKED,
    )
