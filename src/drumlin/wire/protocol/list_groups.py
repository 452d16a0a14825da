"""ListGroups (key 16), versions 0 to 5."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import ZERO, Milliseconds32


@message
class ListGroupsRequest:
    states_filter: Annotated[tuple[str, ...], Versions(4)] = ()
    types_filter: Annotated[tuple[str, ...], Versions(5)] = ()


@message
class ListedGroup:
    group_id: str
    protocol_type: str
    group_state: Annotated[str, Versions(4)] = ""
    group_type: Annotated[str, Versions(5)] = ""


@message
class ListGroupsResponse:
    throttle_time: Annotated[Milliseconds32, Versions(1)] = ZERO
    error_code: ErrorCode
    groups: tuple[ListedGroup, ...]
