"""What cleaning does to a compacted topic: its tail and head, and what the next one will free.

Brokers of Drumlin tell it to their operator, not to users of the Kafka protocol: `Operator` is the
way to them. Only topics whose configuration the session's user may see are told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Protocol

from drumlin.console.answers.asking import Answer
from drumlin.console.answers.configs import topic_configs
from drumlin.peer.broker_connections import BrokerConnections

_ROWS_MAX: Final = 2_000
#: A broker that hangs holds a thread for so long.
_STATE_S: Final = 10.0
_SIMULATION_S: Final = 120.0
_KEYS: Final = (
    "cleanup.policy",
    "min.cleanable.dirty.ratio",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "segment.ms",
    "segment.bytes",
)
_NO_OPERATOR: Final = (
    "this console was not told how to ask the brokers: start it with --data DIR on a broker's "
    "machine, or with --http HOST:PORT, a broker's drumlin.metrics.listener. "
    "Brokers of Apache Kafka do not tell what their cleaner does."
)


class OperatorFailed(Exception):
    """A broker did not tell its operator; the message says why."""


class Operator(Protocol):
    """The way of an operator to one broker."""

    name: str
    #: Whether it may be asked what a cleaning would do, which reads as much as a cleaning.
    can_simulate: bool

    def get(self, path: str, timeout_s: float, **query: str | int) -> Any:
        """The JSON at a path. Blocks.

        Raises:
            OperatorFailed: there is no answer, or it is an error.
        """


async def compaction(
    connections: BrokerConnections, operators: Sequence[Operator], topic: str
) -> Answer:
    """The state of cleaning of each replica of a topic's partitions, as its broker tells it.

    Raises:
        KafkaError: there is no such topic, or the user may not see its configuration.
    """
    configs = (await topic_configs(connections, topic))["configs"]
    chosen = {row["key"]: row["value"] for row in configs if row["key"] in _KEYS}
    answer: Answer = {"topic": topic, "configs": chosen, "rows": [], "errors": [], "why_not": None}
    answer["can_simulate"] = any(each.can_simulate for each in operators)
    if "compact" not in str(chosen.get("cleanup.policy")):
        return {**answer, "why_not": "this topic is not compacted: see its cleanup.policy"}
    if not operators:
        return {**answer, "why_not": _NO_OPERATOR}
    for each in operators:
        try:
            told = await asyncio.to_thread(each.get, "/compaction", _STATE_S, topic=topic)
        except OperatorFailed as error:
            answer["errors"].append(str(error))
            continue
        answer["rows"] += [{"operator": each.name, **row} for row in told["partitions"]]
        if told["is_enabled"] is False:
            answer["errors"].append(f"{each.name}: log.cleaner.enable is false: nothing is cleaned")
    answer["rows"] = answer["rows"][:_ROWS_MAX]
    if not answer["rows"] and not answer["errors"]:
        answer["why_not"] = "the brokers that this console may ask have no replica of this topic"
    return answer


async def simulation(
    connections: BrokerConnections, operators: Sequence[Operator], topic: str, partition: int
) -> Answer:
    """What a cleaning of a partition would do now, as its brokers say; nothing is changed.

    Raises:
        KafkaError: there is no such topic, or the user may not see its configuration.
        OperatorFailed: no broker can say.
    """
    await topic_configs(connections, topic)
    able = [each for each in operators if each.can_simulate]
    if not able:
        raise OperatorFailed("no broker can be asked: start the console with --data DIR")
    results: list[Answer] = []
    for each in able:
        path = "/compaction/simulate"
        told = await asyncio.to_thread(
            each.get, path, _SIMULATION_S, topic=topic, partition=partition
        )
        results += [{"operator": each.name, **row} for row in told["results"]]
    return {"results": results}
