"""The right to create a topic."""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation


def may_create(context: RequestContext, name: str) -> bool:
    """Whether the principal may create any topic, or this one."""
    may_all = context.sees_cluster(Operation.CREATE)
    return may_all or context.may(Operation.CREATE, Kind.TOPIC, name)
