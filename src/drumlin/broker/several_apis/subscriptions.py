"""The rights that a member of a group needs for the topics to which it subscribes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from drumlin.turns import give_way


async def check_subscribed(context: RequestContext, names: Iterable[str] | None) -> None:
    """
    Raises:
        KafkaError: TOPIC_AUTHORIZATION_FAILED, the client may not see one of the topics.
    """
    if names is None or context.broker.authorizer is None:
        return
    for name in names:
        if not context.may(Operation.DESCRIBE, Kind.TOPIC, name):
            raise denied(Kind.TOPIC)
        await give_way()


def seeing(context: RequestContext) -> Callable[[str], bool] | None:
    """Whether the client may see a topic; None if it sees all. To be called on the loop."""
    if context.broker.authorizer is None:
        return None
    return partial(context.may, Operation.DESCRIBE, Kind.TOPIC)
