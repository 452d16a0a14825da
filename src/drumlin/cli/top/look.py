"""One look at a cluster: what is counted, at one moment.

Asks with requests of limited size. A broker that does not answer is missing in the look.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drumlin.cli.reach.broker_http import BrokerHttp
from drumlin.cli.reach.group_positions import Positions, listed_groups, positions_of
from drumlin.cli.reach.log_dirs import LogDir, log_dirs
from drumlin.cli.reach.partition_offsets import LATEST, all_places, offsets_at
from drumlin.cli.terminal.output import Failure
from drumlin.cli.top.own_metrics import Figures, brokers_in, figures_in, sent_in
from drumlin.client.admin.group_admin import GroupListing
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.cluster_view import TopicView
from drumlin.peer.connection import Address


@dataclass(frozen=True, slots=True)
class OwnLook:
    """What a Drumlin broker says over HTTP; `error` if it does not answer."""

    where: str
    at_s: float
    figures: Figures = field(default_factory=dict)
    cleaner: Sequence[Mapping[str, Any]] = ()
    error: str | None = None
    sent: Mapping[str, float] = field(default_factory=dict)  # bytes to consumers, by topic
    brokers: frozenset[str] = frozenset()  # ids of the brokers at this address, if they tell


@dataclass(frozen=True, slots=True)
class Look:
    """A cluster at one moment."""

    at_s: float
    cluster_id: str | None
    controller: int
    brokers: Mapping[int, Address]
    topics: Mapping[str, TopicView]
    ends: Mapping[TopicPartition, int]
    log_dirs: Sequence[LogDir] = ()
    groups: Sequence[GroupListing] = ()
    positions: Positions = field(default_factory=dict)
    own: Sequence[OwnLook] = ()
    silent: frozenset[int] = frozenset()  # brokers that are registered and do not answer


async def take_look(connections: BrokerConnections, own: Sequence[BrokerHttp]) -> Look:
    """A look at the cluster, and at those brokers that are reached by HTTP.

    Raises:
        KafkaError, PeerError: the cluster as a whole does not answer.
    """
    asked_own = [asyncio.create_task(asyncio.to_thread(_look_at_own, each)) for each in own]
    try:
        await connections.look_up(None)
        view = connections.view
        groups, silent = await listed_groups(connections)
        # Before the ends of the logs, so that no lag is negative.
        positions = await positions_of(connections, groups)
        at_s = time.monotonic()
        ends = await offsets_at(connections, all_places(connections), LATEST)
        found = await log_dirs(connections)
        return Look(
            at_s,
            view.cluster_id,
            view.controller_id,
            dict(view.brokers),
            dict(view.topics),
            {place: each.offset for place, each in ends.items()},
            found,
            groups,
            positions,
            [await each for each in asked_own],
            silent,
        )
    finally:
        await asyncio.gather(*asked_own, return_exceptions=True)


def _look_at_own(broker: BrokerHttp) -> OwnLook:
    at_s = time.monotonic()
    try:
        text = broker.text("/metrics")
        figures, sent, brokers = figures_in(text), sent_in(text), brokers_in(text)
        cleaner = broker.get("/compaction")["partitions"]
    except (Failure, ValueError, KeyError) as error:
        return OwnLook(broker.where, at_s, error=str(error))
    return OwnLook(broker.where, at_s, figures, cleaner, sent=sent, brokers=brokers)
