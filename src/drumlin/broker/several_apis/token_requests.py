"""Requests about delegation tokens: the check of the sender, and changes of tokens (KIP-48)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.login.delegation_tokens import DelegationToken
from drumlin.broker.rights.session import ANONYMOUS
from drumlin.wire.error_codes import ErrorCode, KafkaError

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
#: Stands for a token's missing times: -1 on the wire.
NO_TIME: Final = _EPOCH - _MILLISECOND


def moment(at_ms: int) -> datetime:
    return _EPOCH + at_ms * _MILLISECOND


def milliseconds(duration: timedelta) -> int:
    return duration // _MILLISECOND


def require_login(context: RequestContext) -> None:
    """Refuse clients that have not logged in, or have logged in by a token.

    Raises:
        KafkaError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
    """
    if context.session.principal == ANONYMOUS or context.session.is_by_token:
        message = "Delegation Token requests are not allowed on connections without a login."
        raise KafkaError(ErrorCode.delegation_token_request_not_allowed, message)


async def change(
    context: RequestContext,
    password: bytes,
    decide: Callable[[DelegationToken, int], DelegationToken | None],
) -> tuple[ErrorCode, datetime]:
    """Change or remove a token: `decide` gets the token and the time in ms, and returns the changed
    token, or None. Returns the new expiry time.
    """
    try:
        require_login(context)
    except KafkaError as refusal:
        return refusal.code, NO_TIME
    try:
        return ErrorCode.none, moment(await _changed(context, password, decide))
    except KafkaError as refusal:
        return refusal.code, _EPOCH  # as Apache Kafka's controller does


async def _changed(
    context: RequestContext,
    password: bytes,
    decide: Callable[[DelegationToken, int], DelegationToken | None],
) -> int:
    tokens = context.broker.delegation_tokens
    tokens.require_enabled()
    found, now_ms = await tokens.with_password(password), context.broker.clock.wall_ms()
    ends_at_ms = now_ms

    def alter(stored: Mapping[str, str]) -> Mapping[str, str | None]:
        nonlocal ends_at_ms
        if not stored:
            message = "There is no such delegation token."
            raise KafkaError(ErrorCode.delegation_token_not_found, message)
        changed = decide(DelegationToken.of_configs(stored), now_ms)
        if changed is None:
            return dict.fromkeys(stored)
        ends_at_ms = changed.expires_at_ms
        return changed.configs()

    await context.broker.metadata.alter_configs(found.resource, alter)
    return ends_at_ms
