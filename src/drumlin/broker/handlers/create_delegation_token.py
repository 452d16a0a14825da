"""CreateDelegationToken (key 38), versions 1-3: a token for the authenticated user (KIP-48).

Version 3 can name another owner (KIP-373).
"""

from __future__ import annotations

from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.login.delegation_tokens import USER, DelegationToken
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.several_apis.token_requests import NO_TIME, milliseconds, moment, require_login
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

_WITH_OWNER: Final = 3
#: Any user can create tokens, so their size is bounded, and with it the time to write one.
_RENEWERS_MAX: Final = 1000
_CHARACTERS_MAX: Final = 1 << 16


async def handle(
    context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    requester = owner = context.session.principal
    if context.version >= _WITH_OWNER and request.owner_principal_name:
        owner = f"{request.owner_principal_type or ''}:{request.owner_principal_name}"
    try:
        token = await _created(context, request, owner)
    except KafkaError as refusal:
        return _answer(refusal.code, owner, requester, None, b"")
    password = context.broker.delegation_tokens.password(token.token_id)
    return _answer(ErrorCode.none, owner, requester, token, password)


async def _created(
    context: RequestContext, request: CreateDelegationTokenRequest, owner: str
) -> DelegationToken:
    require_login(context)
    requester, tokens = context.session.principal, context.broker.delegation_tokens
    if owner != requester:
        context.require(Operation.CREATE_TOKENS, Kind.USER, owner)
    tokens.require_enabled()
    if not owner.startswith(f"{USER}:"):
        # A login by its token would be that of the user of the same name.
        raise KafkaError(ErrorCode.invalid_principal_type, "Only users can have a token.")
    if len(request.renewers) > _RENEWERS_MAX:
        message = f"A token can have {_RENEWERS_MAX} renewers, not {len(request.renewers)}."
        raise KafkaError(ErrorCode.invalid_request, message)
    if len(owner) + sum(len(each.principal_name) for each in request.renewers) > _CHARACTERS_MAX:
        message = f"The names of a token can have {_CHARACTERS_MAX} characters."
        raise KafkaError(ErrorCode.invalid_request, message)
    if any(each.principal_type != USER for each in request.renewers):
        raise KafkaError(ErrorCode.invalid_principal_type, "Only users can renew a token.")
    renewers = [f"{USER}:{each.principal_name}" for each in request.renewers]
    now_ms = context.broker.clock.wall_ms()
    token = tokens.new(owner, requester, renewers, milliseconds(request.max_lifetime), now_ms)
    await context.broker.metadata.alter_configs(token.resource, lambda _: token.configs())
    return token


def _answer(
    code: ErrorCode,
    owner: str,
    requester: str,
    token: DelegationToken | None,
    password: bytes,
) -> CreateDelegationTokenResponse:
    owner_type, _, owner_name = owner.partition(":")
    requester_type, _, requester_name = requester.partition(":")
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=moment(token.issued_at_ms) if token else NO_TIME,
        expiry_timestamp=moment(token.expires_at_ms) if token else NO_TIME,
        max_timestamp=moment(token.max_at_ms) if token else NO_TIME,
        token_id=token.token_id if token else "",
        hmac=password,
        throttle_time=ZERO,
    )
