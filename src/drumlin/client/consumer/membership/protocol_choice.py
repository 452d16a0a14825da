"""Makes the membership and the group protocol that the options name."""

from __future__ import annotations

import asyncio
import uuid
from functools import partial

from drumlin.client.consumer.coordinator_link import CoordinatorLink
from drumlin.client.consumer.membership.classic_membership import ClassicMembership, ClassicOptions
from drumlin.client.consumer.membership.classic_protocol import ClassicProtocol
from drumlin.client.consumer.membership.consumer_membership import (
    ConsumerMembership,
    ConsumerProtocolOptions,
)
from drumlin.client.consumer.membership.consumer_protocol import ConsumerProtocol
from drumlin.client.consumer.membership.driver import GroupProtocolDriver
from drumlin.client.consumer.options import ConsumerOptions, Subscription
from drumlin.client.consumer.topics import partition_counts, topic_names
from drumlin.peer.broker_connections import BrokerConnections


def make_protocol(
    options: ConsumerOptions,
    subscription: Subscription,
    link: CoordinatorLink,
    connections: BrokerConnections,
) -> GroupProtocolDriver:
    """A member that has not joined yet."""
    now = asyncio.get_running_loop().time()
    poll_interval_s = options.max_poll_interval_ms / 1000
    if options.protocol == "classic":
        classic = ClassicOptions(
            link.group_id,
            options.group_instance_id,
            tuple(options.assignors),
            options.heartbeat_interval_ms / 1000,
            poll_interval_s,
            options.rack,
        )
        return ClassicProtocol(
            ClassicMembership(classic, now),
            classic,
            options.session_timeout_ms,
            link,
            partial(partition_counts, connections),
        )
    modern = ConsumerProtocolOptions(link.group_id, options.group_instance_id, poll_interval_s)
    return ConsumerProtocol(
        ConsumerMembership(modern, str(uuid.uuid4()), now),
        modern,
        subscription,
        link,
        partial(topic_names, connections),
        server_assignor=options.server_assignor,
        rack=options.rack,
    )
