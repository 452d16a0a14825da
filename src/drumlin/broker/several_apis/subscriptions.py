"""The rights that a member of a group needs for the topics to which it subscribes."""

from __future__ import annotations

from collections.abc import Iterable

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from drumlin.turns import give_way


async def check_subscribed(context: RequestContext, names: Iterable[str] | None) -> None:
    """
    Raises:
        KafkaError: TOPIC_AUTHORIZATION_FAILED, the client may not see one of the topics.
    """
    may_see = context.topic_right(Operation.DESCRIBE)
    if names is None or may_see is None:
        return
    for name in names:
        if not may_see(name):
            raise denied(Kind.TOPIC)
        await give_way()
