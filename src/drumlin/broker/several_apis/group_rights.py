"""The rights to groups, and to the topics of their members.

As in Apache Kafka, denials have no message, except for the topics of a described group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.turns import give_way
from drumlin.wire.error_codes import KafkaError

_UNSEEN_TOPIC: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)


def require_group(context: RequestContext, operation: Operation, group_id: str) -> None:
    """
    Raises:
        KafkaError: GROUP_AUTHORIZATION_FAILED.
    """
    if not context.may(operation, Kind.GROUP, group_id):
        raise KafkaError(DENIED[Kind.GROUP])


async def check_subscribed(context: RequestContext, names: Iterable[str] | None) -> None:
    """Check that the client may see all topics to which it subscribes by name.

    Raises:
        KafkaError: TOPIC_AUTHORIZATION_FAILED.
    """
    await _check_seen(context, names or (), None)


async def check_described(context: RequestContext, topics: Iterable[str]) -> None:
    """Check that the client may see all topics that members of a group have.

    Raises:
        KafkaError: TOPIC_AUTHORIZATION_FAILED, for the group as a whole.
    """
    await _check_seen(context, topics, _UNSEEN_TOPIC)


async def _check_seen(context: RequestContext, topics: Iterable[str], message: str | None) -> None:
    may_see = context.topic_right(Operation.DESCRIBE)
    if may_see is None:
        return
    for name in topics:
        if not may_see(name):
            raise KafkaError(DENIED[Kind.TOPIC], message)
        await give_way()
