"""AlterUserScramCredentials (key 51), version 0: change the SCRAM credentials of users (KIP-554),
with an answer for each user. See `unsecured.py`.
"""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.unsecured import refuse_deletion, refuse_upsertion
from drumlin.turns import give_way
from drumlin.wire.error_codes import KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def handle(
    _: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    errors: dict[str, KafkaError] = {}  # the first error of each user
    for deletion in request.deletions:
        errors.setdefault(deletion.name, refuse_deletion(deletion.name, deletion.mechanism))
        await give_way()
    for each in request.upsertions:
        errors.setdefault(each.name, refuse_upsertion(each.name, each.mechanism, each.iterations))
        await give_way()
    results = []
    for user, error in errors.items():
        results.append(
            AlterUserScramCredentialsResult(
                user=user,
                error_code=error.code,
                error_message=error.message,
            )
        )
        await give_way()
    return AlterUserScramCredentialsResponse(throttle_time=ZERO, results=tuple(results))
