"""AlterUserScramCredentials (key 51), version 0: who may log in by SCRAM (KIP-554), with an
answer for each user. See `unsecured.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.unsecured import refuse_deletion, refuse_upsertion
from drumlin.turns import give_way
from drumlin.wire.error_codes import KafkaError
from drumlin.wire.messages import ZERO, Shape

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest
    from kio.schema.alter_user_scram_credentials.v0.response import (
        AlterUserScramCredentialsResponse,
    )


async def handle(
    _: RequestContext, request: AlterUserScramCredentialsRequest, shape: Shape
) -> AlterUserScramCredentialsResponse:
    errors: dict[str, KafkaError] = {}  # the first of each user
    for deletion in request.deletions:
        errors.setdefault(deletion.name, refuse_deletion(deletion.name, deletion.mechanism))
        await give_way()
    for each in request.upsertions:
        errors.setdefault(each.name, refuse_upsertion(each.name, each.mechanism, each.iterations))
        await give_way()
    results = []
    for user, error in errors.items():
        results.append(
            shape(
                "AlterUserScramCredentialsResult",
                user=user,
                error_code=error.code,
                error_message=error.message,
            )
        )
        await give_way()
    return shape("AlterUserScramCredentialsResponse", throttle_time=ZERO, results=tuple(results))
