"""The common parts of answers that describe groups of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from drumlin.broker.parts.cluster_view import OPERATIONS_NOT_ASKED
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


#: A bit for each operation on groups: read 3, delete 6, describe 8, and configurations 10, 11.
_GROUP_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def authorized_operations(
    request: ConsumerGroupDescribeRequest | DescribeGroupsRequest | ShareGroupDescribeRequest,
) -> int:
    """The client's authorized operations on groups, if requested; every client is authorized for
    all.
    """
    return _GROUP_OPERATIONS if request.include_authorized_operations else OPERATIONS_NOT_ASKED


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
