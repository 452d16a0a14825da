"""The common parts of ShareFetch and ShareAcknowledge requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.share_partitions.sessions import Member
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.wire.protocol.share_acknowledge import ShareAcknowledgeRequest
    from drumlin.wire.protocol.share_fetch import ShareFetchRequest

_MEMBER_ID_MAX: Final = 36  # a UUID as text


def member_of(
    context: RequestContext, request: ShareFetchRequest | ShareAcknowledgeRequest
) -> Member:
    """The member that sends the request.

    Raises:
        KafkaError: GROUP_AUTHORIZATION_FAILED; INVALID_REQUEST, no member can have this id.
    """
    if request.group_id is None:
        raise KafkaError(ErrorCode.invalid_request, "a share group has an id")
    context.require(Operation.READ, Kind.GROUP, request.group_id)
    if not request.member_id or len(request.member_id) > _MEMBER_ID_MAX:
        raise KafkaError(ErrorCode.invalid_request, "a member of a share group has an id")
    return Member(request.group_id, request.member_id)
