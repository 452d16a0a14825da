"""DescribeDelegationToken (key 41), versions 1-3: the tokens that the client may see (KIP-48).

A null list of owners means the tokens of all; an empty list, those of none.
"""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.login.delegation_tokens import DelegationToken
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.several_apis.token_requests import require_login
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


async def handle(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    tokens, code, found = context.broker.delegation_tokens, ErrorCode.none, []
    try:
        require_login(context)
        tokens.require_enabled()
        owners = None
        if request.owners is not None:
            owners = set()
            for each in request.owners:
                owners.add(f"{each.principal_type}:{each.principal_name}")
                await give_way()
        for token in tokens.all():
            is_asked = owners is None or not owners.isdisjoint(token.seen_by)
            if is_asked and _may_see(context, token):
                found.append(_described(token, tokens.password(token.token_id)))
            await give_way()
    except KafkaError as refusal:
        code = refusal.code
    return DescribeDelegationTokenResponse(throttle_time=ZERO, error_code=code, tokens=tuple(found))


def _may_see(context: RequestContext, token: DelegationToken) -> bool:
    return (
        context.session.principal in token.seen_by
        or context.may(Operation.DESCRIBE, Kind.DELEGATION_TOKEN, token.token_id)
        or context.may(Operation.DESCRIBE_TOKENS, Kind.USER, token.owner)
    )


def _described(token: DelegationToken, password: bytes) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    requester_type, _, requester_name = token.requester.partition(":")
    renewers = (each.partition(":") for each in token.renewers)
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issued_at_ms,
        expiry_timestamp=token.expires_at_ms,
        max_timestamp=token.max_at_ms,
        token_id=token.token_id,
        hmac=password,
        renewers=tuple(
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in renewers
        ),
    )
