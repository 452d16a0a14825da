"""The right to read the partitions of a share session."""

from __future__ import annotations

from collections.abc import Callable

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.share_partitions.sessions import SessionPartition

#: Whether a partition may not be read now. Asked before records are acquired or acknowledged, and
#: again after each wait.
Denies = Callable[[SessionPartition], bool]


def denies_nothing(_: SessionPartition) -> bool:
    return False


def denying(context: RequestContext, group_id: str) -> Denies:
    """The rights of the client as a member of a group. An unknown topic id is not denied, as ids
    are no secret.
    """
    if context.broker.authorizer is None:
        return denies_nothing
    image = context.broker.metadata.image

    def denies(shared: SessionPartition) -> bool:
        if not context.may(Operation.READ, Kind.GROUP, group_id):
            return True
        name = image.topic_name(shared.topic_id)
        return name is not None and not context.may(Operation.READ, Kind.TOPIC, name)

    return denies
