"""AlterUserScramCredentials (key 51), version 0."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int8, Int32, Milliseconds32


@message
class ScramCredentialDeletion:
    name: str
    mechanism: Int8


@message
class ScramCredentialUpsertion:
    name: str
    mechanism: Int8
    iterations: Int32
    salt: bytes
    salted_password: bytes


@message
class AlterUserScramCredentialsRequest:
    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]


@message
class AlterUserScramCredentialsResult:
    user: str
    error_code: ErrorCode
    error_message: str | None


@message
class AlterUserScramCredentialsResponse:
    throttle_time: Milliseconds32
    results: tuple[AlterUserScramCredentialsResult, ...]
