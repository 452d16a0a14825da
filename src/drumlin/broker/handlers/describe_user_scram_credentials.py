"""DescribeUserScramCredentials (key 50), version 0: the SCRAM credentials of users (KIP-554).

Each user is answered once; no names, or null, mean all of them. See `unsecured.py`.
"""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.unsecured import no_credential
from drumlin.distinct import counted
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


async def handle(
    _: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    users = await counted(each.name for each in request.users or ())
    results = []
    for user, times in users.items():
        results.append(_result(user, times > 1))
        await give_way()
    return DescribeUserScramCredentialsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message="",
        results=tuple(results),
    )


def _result(user: str, is_repeated: bool) -> DescribeUserScramCredentialsResult:
    error = no_credential(user)
    if is_repeated:
        message = f"user {user!r} is named more than once"
        error = KafkaError(ErrorCode.duplicate_resource, message)
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=error.code,
        error_message=error.message,
        credential_infos=(),
    )
