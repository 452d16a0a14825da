"""Facts about a cluster, by requests that any broker of the Kafka protocol answers.

What is refused, or not served, is left out and named. Changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeVar

from drumlin.cli.doctor.facts import (
    BrokerClock,
    ClusterFacts,
    Configuration,
    Disk,
    GroupFacts,
    GroupPosition,
    HangingProducer,
    LogGrowth,
    OpenTransaction,
    Partition,
)
from drumlin.cli.doctor.finding import some_of
from drumlin.cli.doctor.gathering.addresses import addresses_told, look_at_addresses
from drumlin.cli.doctor.gathering.configs import configs_of_topics, configuration_of_broker
from drumlin.cli.doctor.gathering.growth import DAY_S, HOUR_S, Window, bytes_per_s
from drumlin.cli.reach.cluster import Cluster
from drumlin.cli.reach.group_positions import Positions, commits_offsets, positions_of
from drumlin.cli.reach.log_dirs import log_dirs
from drumlin.cli.reach.partition_offsets import (
    EARLIEST,
    LATEST,
    NEWEST,
    Offsets,
    all_places,
    offsets_at,
)
from drumlin.cli.terminal.outcomes import sentence
from drumlin.client.admin.group_admin import GroupListing, list_groups
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.transactions import descriptions
from drumlin.client.transactions.open_producers import open_producers, owner_of
from drumlin.peer.peer_error import PeerError, UnsupportedByBroker
from drumlin.wire.error_codes import KafkaError
from drumlin.wire.protocol.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)

T = TypeVar("T")

_ONGOING: Final = "Ongoing"
_COMPACT: Final = "compact"
#: The most partitions whose open transactions are looked at, one by one.
_PLACES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at what moves. Positions come first, so that no lag is negative."""

    at_s: float
    positions: Positions
    ends: Offsets
    stable: Offsets


@dataclass(slots=True)
class _Unknown:
    """Runs what may be refused, and keeps the reasons."""

    reasons: list[tuple[str, str]] = field(default_factory=list)

    def attempt(self, what: str, ask: Callable[[], T]) -> T | None:
        """What `ask` returns; None if it was refused or is not served."""
        try:
            return ask()
        except UnsupportedByBroker:
            return None  # an older broker: there is nothing to be done about that
        except KafkaError as error:
            self.reasons.append((what, sentence(error)))
        except (PeerError, OSError) as error:
            self.reasons.append((what, str(error)))
        return None


def look_at_cluster(
    cluster: Cluster, seconds: float, sleep: Callable[[float], None] = time.sleep
) -> tuple[ClusterFacts, tuple[tuple[str, str], ...]]:
    """The facts, and what could not be looked at. Looks twice, `seconds` apart."""
    unknown = _Unknown()
    connections = cluster.connections
    cluster.run(connections.look_up(None))
    view = connections.view
    groups = unknown.attempt("groups", lambda: cluster.run(list_groups(connections))) or []
    before = _look(cluster, groups)
    seen_s = time.monotonic()
    configs = (
        unknown.attempt("configurations of topics", lambda: configs_of_topics(cluster, view.topics))
        or {}
    )
    brokers = _configurations(cluster, unknown)
    has_tls = connections.options.security.tls is not None
    told = addresses_told(view.brokers, brokers, has_tls)
    addresses = cluster.run(look_at_addresses(told))
    clocks = unknown.attempt("clocks", lambda: _controllers_clock(cluster)) or ()
    started = cluster.run(offsets_at(connections, all_places(connections), EARLIEST))
    newest = cluster.run(offsets_at(connections, all_places(connections), NEWEST))
    disks = unknown.attempt("log dirs", lambda: _disks(cluster, started, before.ends, configs))
    open_transactions = unknown.attempt("transactions", lambda: _open_transactions(cluster))
    unknown.reasons += _refused(view.brokers, groups, before, disks or ())
    sleep(max(0.0, seconds - (time.monotonic() - seen_s)))
    after = _look(cluster, groups)
    facts = ClusterFacts(
        view.cluster_id,
        frozenset(view.brokers),
        view.controller_id,
        tuple(
            Partition(
                topic.name, each.index, each.leader, each.replicas, each.isr, topic.is_internal
            )
            for topic in view.topics.values()
            for each in topic.partitions.values()
        ),
        configs,
        brokers,
        addresses,
        clocks,
        disks or (),
        tuple(_group(each, before, after, started) for each in groups),
        open_transactions or (),
        unknown.attempt("open transactions", lambda: _hanging(cluster, before, after)) or (),
        {place: each.timestamp for place, each in newest.items()},
    )
    return facts, tuple(unknown.reasons)


def _refused(
    brokers: Collection[int], groups: list[GroupListing], look: _Look, disks: Iterable[Disk]
) -> Iterator[tuple[str, str]]:
    """What was left out of answers without a word."""
    may_not = "no answer, or the user may not describe"
    missing = sorted({*brokers} - {each.broker for each in disks})
    if missing:
        yield f"log dirs of brokers {some_of(map(str, missing))}", f"{may_not} the cluster"
    unread = [e.group for e in groups if commits_offsets(e) and e.group not in look.positions]
    if unread:
        yield f"offsets of groups {some_of(unread)}", f"{may_not} them"


def _look(cluster: Cluster, groups: list[GroupListing]) -> _Look:
    connections = cluster.connections
    at_s = time.monotonic()
    positions = cluster.run(positions_of(connections, groups))
    places = all_places(connections)
    stable = cluster.run(offsets_at(connections, places, LATEST, "read_committed"))
    return _Look(at_s, positions, cluster.run(offsets_at(connections, places, LATEST)), stable)


def _configurations(cluster: Cluster, unknown: _Unknown) -> tuple[Configuration, ...]:
    found = []
    for node_id in cluster.broker_ids:

        def ask(node_id: int = node_id) -> Configuration | None:
            return configuration_of_broker(cluster, node_id)

        found.append(unknown.attempt(f"configuration of broker {node_id}", ask))
    return tuple(each for each in found if each is not None)


def _controllers_clock(cluster: Cluster) -> tuple[BrokerClock, ...]:
    """The clock of a KRaft quorum's leader, which tells its own time among the others'."""
    topic = RequestTopicData(
        topic_name="__cluster_metadata", partitions=(RequestPartitionData(partition_index=0),)
    )
    before_ms = time.time() * 1000
    answer = cluster.ask_any("describe_quorum", DescribeQuorumRequest(topics=(topic,)))
    after_ms = time.time() * 1000
    found = []
    for quorum in (each for told in answer.topics for each in told.partitions):
        for voter in quorum.current_voters:
            if voter.replica_id == quorum.leader_id and voter.last_fetch_timestamp > 0:
                ahead_ms = round(voter.last_fetch_timestamp - (before_ms + after_ms) / 2)
                where = f"controller {voter.replica_id}"
                found.append(BrokerClock(where, ahead_ms, round(after_ms - before_ms)))
    return tuple(found)


def _group(listing: GroupListing, before: _Look, after: _Look, started: Offsets) -> GroupFacts:
    earlier = before.positions.get(listing.group, {})
    positions = {
        place: GroupPosition(
            started[place].offset,
            (earlier[place], offset),
            (before.ends[place].offset, after.ends[place].offset),
        )
        for place, offset in after.positions.get(listing.group, {}).items()
        if place in earlier and all(place in each for each in (started, before.ends, after.ends))
    }
    seconds = max(after.at_s - before.at_s, 0.001)
    return GroupFacts(listing.group, listing.state, positions, seconds)


# -- disks ---------------------------------------------------------------------------------------


def _disks(
    cluster: Cluster, started: Offsets, ends: Offsets, configs: dict[str, dict[str, str]]
) -> tuple[Disk, ...]:
    connections = cluster.connections
    places = [each for each in started if not _is_compacted(configs.get(each.topic, {}))]
    now_ms = time.time() * 1000
    windows = [
        (seconds, cluster.run(offsets_at(connections, places, round(now_ms - seconds * 1000))))
        for seconds in (DAY_S, HOUR_S)
    ]

    def growth(place: TopicPartition, size_bytes: int) -> LogGrowth:
        looks = [
            Window(seconds, found[place].offset if place in found else None)
            for seconds, found in windows
        ]
        speed = bytes_per_s(size_bytes, started[place].offset, ends[place].offset, looks)
        config = configs.get(place.topic, {})
        retention_ms = _limit(config.get("retention.ms"))
        return LogGrowth(
            size_bytes,
            speed,
            None if retention_ms is None else retention_ms / 1000,
            _limit(config.get("retention.bytes")),
        )

    known = {each for each in places if each in ends}
    return tuple(
        Disk(
            each.broker,
            each.path,
            each.error,
            each.total_bytes,
            each.usable_bytes,
            tuple(growth(place, size) for place, size in each.sizes.items() if place in known),
        )
        for each in cluster.run(log_dirs(connections))
    )


def _is_compacted(config: dict[str, str]) -> bool:
    """Whether cleanings decide how large a log becomes, which no speed tells."""
    return _COMPACT in config.get("cleanup.policy", "")


def _limit(text: str | None) -> int | None:
    """A retention; None if there is no limit, or it is not known."""
    return int(text) if text and text.isdecimal() else None


# -- transactions --------------------------------------------------------------------------------


def _open_transactions(cluster: Cluster) -> tuple[OpenTransaction, ...]:
    connections = cluster.connections
    listed = cluster.run(descriptions.list_transactions(connections, (_ONGOING,)))
    ids = [each.transactional_id for each in listed]
    described = cluster.run(descriptions.describe(connections, ids)) if ids else {}
    now = datetime.now(UTC)
    return tuple(
        OpenTransaction(
            each.transactional_id, (now - each.start_time).total_seconds(), each.timeout_ms / 1000
        )
        for each in described.values()
        if each.is_open and each.start_time is not None
    )


def _hanging(cluster: Cluster, before: _Look, after: _Look) -> tuple[HangingProducer, ...]:
    """The open transactions without a coordinator, where the last stable offset has not moved."""

    def stands(place: TopicPartition) -> bool:
        then, now = before.stable.get(place), after.stable.get(place)
        return then is not None and now is not None and then.offset == now.offset

    places = [
        place
        for place, end in after.ends.items()
        if stands(place) and _stable(after, place) < end.offset
    ]
    found: list[HangingProducer] = []
    if not places:
        return ()
    connections = cluster.connections
    looked = cluster.run(open_producers(connections, places[:_PLACES_MAX]))
    for place, producers in looked.items():
        for each in producers:
            if cluster.run(owner_of(connections, each)) is None:
                held_up = after.ends[place].offset - _stable(after, place)
                found.append(HangingProducer(*place, each.producer_id, held_up))
    return tuple(found)


def _stable(look: _Look, place: TopicPartition) -> int:
    return look.stable[place].offset
