"""CreateAcls (key 30), versions 1 to 3."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int8, Milliseconds32


@message
class AclCreation:
    resource_type: Int8
    resource_name: str
    resource_pattern_type: Int8 = 3
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@message
class CreateAclsRequest:
    creations: tuple[AclCreation, ...]


@message
class AclCreationResult:
    error_code: ErrorCode
    error_message: str | None


@message
class CreateAclsResponse:
    throttle_time: Milliseconds32
    results: tuple[AclCreationResult, ...]
