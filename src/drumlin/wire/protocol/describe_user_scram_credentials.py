"""DescribeUserScramCredentials (key 50), version 0."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int8, Int32, Milliseconds32


@message
class UserName:
    name: str


@message
class DescribeUserScramCredentialsRequest:
    users: tuple[UserName, ...] | None


@message
class CredentialInfo:
    mechanism: Int8
    iterations: Int32


@message
class DescribeUserScramCredentialsResult:
    user: str
    error_code: ErrorCode
    error_message: str | None
    credential_infos: tuple[CredentialInfo, ...]


@message
class DescribeUserScramCredentialsResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    error_message: str | None
    results: tuple[DescribeUserScramCredentialsResult, ...]
