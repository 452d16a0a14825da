"""CreateDelegationToken (key 38), versions 1 to 3."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Milliseconds32, Milliseconds64, Moment


@message
class CreatableRenewers:
    principal_type: str
    principal_name: str


@message
class CreateDelegationTokenRequest:
    owner_principal_type: Annotated[str | None, Versions(3)] = None
    owner_principal_name: Annotated[str | None, Versions(3)] = None
    renewers: tuple[CreatableRenewers, ...]
    max_lifetime: Milliseconds64


@message
class CreateDelegationTokenResponse:
    error_code: ErrorCode
    principal_type: str
    principal_name: str
    token_requester_principal_type: Annotated[str, Versions(3)] = ""
    token_requester_principal_name: Annotated[str, Versions(3)] = ""
    issue_timestamp: Moment
    expiry_timestamp: Moment
    max_timestamp: Moment
    token_id: str
    hmac: bytes
    throttle_time: Milliseconds32
