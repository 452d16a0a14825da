"""DescribeDelegationToken (key 41), versions 1 to 3."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int64, Milliseconds32


@message
class DescribeDelegationTokenOwner:
    principal_type: str
    principal_name: str


@message
class DescribeDelegationTokenRequest:
    owners: tuple[DescribeDelegationTokenOwner, ...] | None


@message
class DescribedDelegationTokenRenewer:
    principal_type: str
    principal_name: str


@message
class DescribedDelegationToken:
    principal_type: str
    principal_name: str
    token_requester_principal_type: Annotated[str, Versions(3)] = ""
    token_requester_principal_name: Annotated[str, Versions(3)] = ""
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: str
    hmac: bytes
    renewers: tuple[DescribedDelegationTokenRenewer, ...]


@message
class DescribeDelegationTokenResponse:
    error_code: ErrorCode
    tokens: tuple[DescribedDelegationToken, ...]
    throttle_time: Milliseconds32
