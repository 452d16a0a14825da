"""Asks brokers what tells whether a state can be read exactly; `state_claims.py` decides."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from drumlin.client.admin import topic_configs
from drumlin.client.offsets import TopicPartition, list_offsets, look_up
from drumlin.client.state_claims import Claim, Claims, LogFacts, check, claim
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import Isolation
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.exact_from import EXACT_FROM

#: The broker does not know the question.
_NOT_KNOWN: Final = (ErrorCode.unsupported_version, ErrorCode.invalid_request)


@dataclass(frozen=True, slots=True)
class _Cleaning:
    """How a topic is cleaned."""

    is_compacted: bool
    min_compaction_lag_ms: int
    has_append_times: bool


async def claim_states(
    connections: BrokerConnections,
    end_offsets: Mapping[TopicPartition, int],
    *,
    is_now: bool,
    allow_inexact: bool,
) -> Claims:
    """Before reading: why the states at these offsets will be exact.

    Raises:
        StateNotExact: one of them can't be.
    """
    now_ms = _now_ms()
    facts = await log_facts(connections, end_offsets.keys())
    return {
        place: claim(
            place, end_offset, facts[place], now_ms, is_now=is_now, allow_inexact=allow_inexact
        )
        for place, end_offset in end_offsets.items()
    }


async def confirm_states(connections: BrokerConnections, claims: Claims) -> None:
    """After reading: whether the states were exact.

    Raises:
        StateNotExact: one of them may not have been.
    """
    doubtful = {key: each for key, each in claims.items() if _may_change(each)}
    if not doubtful:
        return
    facts = await log_facts(connections, doubtful.keys())
    now_ms = _now_ms()
    for place, claimed in doubtful.items():
        check(place, claimed, facts[place], now_ms)


async def exact_from(
    connections: BrokerConnections, places: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """From which end offset on states are exact, and the leader's epoch; of those that tell it."""
    try:
        wanted = dict.fromkeys(places, EXACT_FROM)
        found = await look_up(connections, wanted, "read_uncommitted")
    except KafkaError as error:
        if error.code not in _NOT_KNOWN:
            raise
        return {}
    # An old Kafka takes the number for a time, and finds a record.
    return {
        place: (each.offset, each.leader_epoch)
        for place, each in found.items()
        if each.timestamp == EXACT_FROM
    }


async def log_facts(
    connections: BrokerConnections, places: Collection[TopicPartition]
) -> dict[TopicPartition, LogFacts]:
    """What there is to know of these logs. Where they are cleaned to is asked for last."""
    isolation: Isolation = "read_uncommitted"
    first = await list_offsets(connections, dict.fromkeys(places, "earliest"), isolation)
    last = await list_offsets(connections, dict.fromkeys(places, "latest"), isolation)
    told = await exact_from(connections, places)
    untold = {topic for topic, partition in places if (topic, partition) not in told}
    cleanings = {topic: await _cleaning(connections, topic) for topic in untold}
    facts = {}
    for place in places:
        if place in told:
            offset, epoch = told[place]
            facts[place] = LogFacts(first[place].offset, last[place].offset, offset, epoch)
        else:
            how = cleanings[place[0]]
            facts[place] = LogFacts(
                first[place].offset,
                last[place].offset,
                None,
                -1,
                how.is_compacted,
                how.min_compaction_lag_ms,
                how.has_append_times,
            )
    return facts


async def _cleaning(connections: BrokerConnections, topic: str) -> _Cleaning:
    configs = await topic_configs(connections, topic)

    def value(name: str, otherwise: str) -> str:
        entry = configs.get(name)
        return otherwise if entry is None or entry.value is None else entry.value

    return _Cleaning(
        "compact" in value("cleanup.policy", "compact"),
        int(value("min.compaction.lag.ms", "0")),
        value("message.timestamp.type", "") == "LogAppendTime",
    )


def _may_change(claimed: Claim) -> bool:
    return claimed.basis in ("told", "now")


def _now_ms() -> int:
    return int(time.time() * 1000)
