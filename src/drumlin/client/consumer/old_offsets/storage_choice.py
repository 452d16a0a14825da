"""Chooses the offset store that the options name."""

from __future__ import annotations

from functools import partial

from drumlin.client.consumer.coordinator_link import CoordinatorLink
from drumlin.client.consumer.offsets.offset_requests import confirm_membership
from drumlin.client.consumer.offsets.offset_storage import BrokerStorage, OffsetStorage
from drumlin.client.consumer.old_offsets.zookeeper_nodes import ZooKeeperNodes
from drumlin.client.consumer.old_offsets.zookeeper_storage import DualStorage, ZooKeeperStorage
from drumlin.client.consumer.options import ConsumerOptions


def make_storage(
    options: ConsumerOptions, link: CoordinatorLink, *, is_member: bool
) -> OffsetStorage:
    """The store that the options name, not connected yet."""
    brokers = BrokerStorage(link)
    if not options.uses_zookeeper:
        return brokers
    assert options.zookeeper is not None
    nodes = ZooKeeperNodes(
        options.zookeeper,
        options.zookeeper_config or {},
        link.group_id,
        link.options.request_timeout_ms,
    )
    confirm = partial(confirm_membership, link, options.protocol) if is_member else None
    in_zookeeper = ZooKeeperStorage(nodes, confirm)
    return DualStorage(brokers, in_zookeeper, nodes) if options.dual_commit else in_zookeeper
