"""The common parts of answers that describe groups of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from drumlin.broker.context import RequestContext
from drumlin.broker.parts.cluster_view import OPERATIONS_NOT_ASKED
from drumlin.broker.rights.acls import Kind
from drumlin.wire.error_codes import KafkaError

if TYPE_CHECKING:
    from drumlin.wire.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
    from drumlin.wire.protocol.consumer_group_describe import (
        DescribedGroup as DescribedConsumerGroup,
    )
    from drumlin.wire.protocol.describe_groups import DescribeGroupsRequest
    from drumlin.wire.protocol.share_group_describe import DescribedGroup as DescribedShareGroup
    from drumlin.wire.protocol.share_group_describe import ShareGroupDescribeRequest

    Group = TypeVar("Group", DescribedConsumerGroup, DescribedShareGroup)


def authorized_operations(
    context: RequestContext,
    request: ConsumerGroupDescribeRequest | DescribeGroupsRequest | ShareGroupDescribeRequest,
    group_id: str,
) -> int:
    """The client's authorized operations on a group, if requested."""
    if not request.include_authorized_operations:
        return OPERATIONS_NOT_ASKED
    return context.operations(Kind.GROUP, group_id)


def refused_group(described_group: type[Group], group_id: str, error: KafkaError) -> Group:
    """A group's entry with an error instead of a description, in the APIs with group epochs."""
    return described_group(
        error_code=error.code,
        error_message=error.message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
        authorized_operations=OPERATIONS_NOT_ASKED,
    )
