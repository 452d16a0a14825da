"""DescribeUserScramCredentials (key 50), version 0: the SCRAM credentials of users (KIP-554).

Each user is answered once; no names, or null, mean all of them.
"""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.login.users import described
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.distinct import counted
from drumlin.metadata.image import ClusterImage, ResourceType
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


async def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    if not context.may_cluster(Operation.DESCRIBE):
        return DescribeUserScramCredentialsResponse(
            throttle_time=ZERO,
            error_code=DENIED[Kind.CLUSTER],
            error_message=None,
            results=(),
        )
    image = context.broker.metadata.image
    users = await counted(each.name for each in request.users or ())
    if not users:
        users = dict.fromkeys(image.configured(ResourceType.USER), 1)
    results = []
    for name, times in users.items():
        results.append(_result(image, name, times > 1))
        await give_way()
    return DescribeUserScramCredentialsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message="",
        results=tuple(results),
    )


def _result(
    image: ClusterImage, name: str, is_repeated: bool
) -> DescribeUserScramCredentialsResult:
    code, message, infos = ErrorCode.none, None, []
    try:
        if is_repeated:
            text = f"user {name!r} is named more than once"
            raise KafkaError(ErrorCode.duplicate_resource, text)
        infos = described(image, name)
    except KafkaError as error:
        code, message = error.code, error.message
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=code,
        error_message=message,
        credential_infos=tuple(
            CredentialInfo(mechanism=number, iterations=iterations) for number, iterations in infos
        ),
    )
