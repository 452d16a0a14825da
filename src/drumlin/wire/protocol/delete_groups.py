"""DeleteGroups (key 42), versions 0 to 2."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Milliseconds32


@message
class DeleteGroupsRequest:
    groups_names: tuple[str, ...] = ()


@message
class DeletableGroupResult:
    group_id: str
    error_code: ErrorCode


@message
class DeleteGroupsResponse:
    throttle_time: Milliseconds32
    results: tuple[DeletableGroupResult, ...]
