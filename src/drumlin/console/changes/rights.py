"""Whether a user may write to a topic or move a group, as brokers tell it, so that buttons say so.

Only for the page: brokers decide each request anew.
"""

from __future__ import annotations

from typing import Any, Final

from drumlin.broker.rights.acls import Operation
from drumlin.client.admin import group_admin
from drumlin.console.answers.asking import Answer, ask_any
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.describe_groups import DescribeGroupsRequest
from drumlin.wire.protocol.metadata import MetadataRequest, MetadataRequestTopic

#: What a broker that was not asked, or is too old, answers.
_NOT_TOLD: Final = -(2**31)


async def rights_on_topic(connections: BrokerConnections, topic: str) -> Answer:
    """`may_write`: None if brokers do not tell."""
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    response: Any = await ask_any(connections, "metadata", request)
    (found,) = response.topics
    return {"may_write": _has(found.topic_authorized_operations, Operation.WRITE)}


async def rights_on_group(connections: BrokerConnections, group: str) -> Answer:
    """`may_reset`: None if brokers do not tell, as for groups that are not classic ones."""
    request = DescribeGroupsRequest(groups=(group,), include_authorized_operations=True)

    def read(response: Any) -> bool | None:
        (found,) = response.groups
        if found.error_code is not ErrorCode.none:
            return None
        return _has(found.authorized_operations, Operation.READ)

    found = await group_admin.ask_coordinator(connections, group, "describe_groups", request, read)
    return {"may_reset": found}


def _has(operations: int, operation: Operation) -> bool | None:
    return None if operations == _NOT_TOLD else bool(operations & (1 << operation))
