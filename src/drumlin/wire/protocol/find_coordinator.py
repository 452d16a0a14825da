"""FindCoordinator (key 10), versions 0 to 6."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import NEVER, NullFrom, Versions, message
from drumlin.wire.schema.types import ZERO, Int8, Int32, Milliseconds32


@message
class FindCoordinatorRequest:
    key: Annotated[str, Versions(0, 3)] = ""
    key_type: Annotated[Int8, Versions(1)] = 0
    coordinator_keys: Annotated[tuple[str, ...] | None, Versions(4), NullFrom(NEVER)] = None


@message
class Coordinator:
    key: str
    node_id: Int32
    host: str
    port: Int32
    error_code: ErrorCode
    error_message: str | None


@message
class FindCoordinatorResponse:
    throttle_time: Annotated[Milliseconds32, Versions(1)] = ZERO
    error_code: Annotated[ErrorCode, Versions(0, 3)] = ErrorCode.none
    error_message: Annotated[str | None, Versions(1, 3)] = ""
    node_id: Annotated[Int32, Versions(0, 3)] = -1
    host: Annotated[str, Versions(0, 3)] = ""
    port: Annotated[Int32, Versions(0, 3)] = -1
    coordinators: Annotated[tuple[Coordinator, ...] | None, Versions(4), NullFrom(NEVER)] = None
