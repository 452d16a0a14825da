"""Fetches the facts from which `state_claims.py` decides whether a state is exact."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from drumlin.client.admin.admin import ConfigEntry, topic_configs
from drumlin.client.read.offsets import list_offsets, look_up
from drumlin.client.state.state_claims import Claim, Claims, LogFacts, check, claim
from drumlin.client.topic_partition import TopicPartition
from drumlin.clock import SystemClock
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import Isolation
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.exact_from import EXACT_FROM

#: The errors of a broker that does not support this request.
_NOT_KNOWN: Final = (ErrorCode.unsupported_version, ErrorCode.invalid_request)


#: The wall clock, as claims and checks may be made on different machines.
_CLOCK: Final = SystemClock()


class Told(NamedTuple):
    """A partition leader's response about exact states; see `wire/exact_from.py`."""

    exact_from: int
    leader_epoch: int
    deletion_drops: int


async def claim_states(
    connections: BrokerConnections,
    end_offsets: Mapping[TopicPartition, int],
    *,
    is_now: bool,
    allow_inexact: bool,
) -> Claims:
    """Claim, before reading, that the states at these offsets will be exact.

    Raises:
        StateNotExact: one of the states cannot be exact.
    """
    now_ms = _CLOCK.wall_ms()
    facts = await log_facts(connections, end_offsets.keys())
    return {
        place: claim(
            place, end_offset, facts[place], now_ms, is_now=is_now, allow_inexact=allow_inexact
        )
        for place, end_offset in end_offsets.items()
    }


async def confirm_states(connections: BrokerConnections, claims: Claims) -> None:
    """Check, after reading, that the states were exact.

    Raises:
        StateNotExact: one of the states may not have been exact.
    """
    doubtful = {key: each for key, each in claims.items() if _may_change(each)}
    if not doubtful:
        return
    facts = await log_facts(connections, doubtful.keys(), doubtful)
    now_ms = _CLOCK.wall_ms()
    for place, claimed in doubtful.items():
        check(place, claimed, facts[place], now_ms)


async def exact_from(
    connections: BrokerConnections, places: Collection[TopicPartition]
) -> dict[TopicPartition, Told]:
    """The responses of those leaders that know which states are exact, by partition."""
    try:
        wanted = dict.fromkeys(places, EXACT_FROM)
        found = await look_up(connections, wanted, "read_uncommitted")
    except KafkaError as error:
        if error.code not in _NOT_KNOWN:
            raise
        return {}
    # An old Kafka takes the number as a timestamp, and finds a record.
    return {
        place: Told(each.offset, each.leader_epoch, EXACT_FROM - each.timestamp)
        for place, each in found.items()
        if each.timestamp <= EXACT_FROM
    }


async def exact_from_of_topic(connections: BrokerConnections, topic: str) -> dict[int, int]:
    """The first end offset with an exact state, by partition, if its leader knows it."""
    places = [TopicPartition(topic, each) for each in await connections.partitions(topic)]
    found = await exact_from(connections, places)
    return {partition: each.exact_from for (_, partition), each in found.items()}


async def log_facts(
    connections: BrokerConnections,
    places: Collection[TopicPartition],
    claims: Claims | None = None,
) -> dict[TopicPartition, LogFacts]:
    """The facts about these logs.

    Called before reading (no `claims`), it returns all of them; afterwards, only those needed to
    check `claims`.

    Each reducer of a query calls this after reading, so it usually sends one request per leader.
    """
    isolation: Isolation = "read_uncommitted"
    starts_of = places if claims is None else ()
    reported, first = await asyncio.gather(
        exact_from(connections, places),
        list_offsets(connections, dict.fromkeys(starts_of, "earliest"), isolation),
    )
    unreported = [place for place in places if place not in reported]
    last = await list_offsets(connections, dict.fromkeys(unreported, "latest"), isolation)
    facts = {}
    for place in places:
        start_offset = first[place].offset if place in first else -1
        if place in reported:
            facts[place] = LogFacts(start_offset, -1, *reported[place])
        else:
            end = last[place]
            facts[place] = LogFacts(start_offset, end.offset, None, end.leader_epoch)
    unclear = {
        place.topic
        for place in places
        if not _is_clear(reported.get(place), (claims or {}).get(place))
    }
    found = await asyncio.gather(*(topic_configs(connections, topic) for topic in unclear))
    for topic, configs in zip(unclear, found, strict=True):
        of_topic = {place: each for place, each in facts.items() if place[0] == topic}
        facts |= {place: _with_configs(each, configs) for place, each in of_topic.items()}
    return facts


def _is_clear(reported: Told | None, claimed: Claim | None) -> bool:
    """Whether the topic's cleanup configuration is not needed for the decision."""
    if reported is None:
        return False
    return claimed is None or reported.deletion_drops == claimed.deletion_drops


def _with_configs(facts: LogFacts, configs: Mapping[str, ConfigEntry]) -> LogFacts:
    def value(name: str, otherwise: str) -> str:
        entry = configs.get(name)
        return otherwise if entry is None or entry.value is None else entry.value

    return facts._replace(
        delete_retention_ms=int(value("delete.retention.ms", "0")),
        is_compacted="compact" in value("cleanup.policy", "compact"),
        min_compaction_lag_ms=int(value("min.compaction.lag.ms", "0")),
        has_append_times=value("message.timestamp.type", "") == "LogAppendTime",
    )


def _may_change(claimed: Claim) -> bool:
    return claimed.basis in ("told", "now")
