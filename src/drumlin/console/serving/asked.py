"""The answers by name, with the parameters that requests have for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from starlette.requests import Request

from drumlin.client.read.conditions import parse_conditions
from drumlin.console.answers.access import access
from drumlin.console.answers.asking import Answer
from drumlin.console.answers.by_schema import BySchema
from drumlin.console.answers.cluster import cluster
from drumlin.console.answers.compaction import Operator, compaction, simulation
from drumlin.console.answers.configs import broker_configs, topic_configs
from drumlin.console.answers.groups import group, groups
from drumlin.console.answers.pipelines.captures import capture, captures
from drumlin.console.answers.pipelines.followers import followers
from drumlin.console.answers.pipelines.sinks import sink, sinks
from drumlin.console.answers.pipelines.states import state, states
from drumlin.console.answers.records import CUT_BYTES_MAX, LIMIT_MAX, Cut, records
from drumlin.console.answers.search import search
from drumlin.console.answers.topics import topic, topics
from drumlin.console.answers.transactions import transactions
from drumlin.console.apart.filtering import filter_records
from drumlin.console.apart.processes import Apart
from drumlin.console.changes.produce import produce
from drumlin.console.changes.record import new_record
from drumlin.console.changes.reset import plan, reset, target_of
from drumlin.console.changes.rights import rights_on_group, rights_on_topic
from drumlin.console.serving.requests import (
    LARGE_BODY_BYTES_MAX,
    body,
    given_text,
    isolation,
    key,
    number,
    place,
    start,
    text,
    texts,
    whole,
)
from drumlin.console.serving.turns import Turns
from drumlin.peer.broker_connections import BrokerConnections

#: Fetched batches may be large.
_READS_AT_ONCE: Final = 4
#: Of the cleaner: each holds a thread, and a broker may hang.
_STATES_AT_ONCE: Final = 2
_PARTITION_MAX: Final = 2**31 - 1
_TOPICS_MAX: Final = 20
_CONDITIONS_MAX: Final = 10
_CONDITION_CHARACTERS_MAX: Final = 500

Ask = Callable[[Request, BrokerConnections], Awaitable[Answer]]


class Answers:
    """What a console can be asked: `asks` by GET, and by POST what causes work, and `changes`."""

    def __init__(self, operators: Sequence[Operator], apart: Apart) -> None:
        self._apart = apart
        self._operators = operators
        self._reads = Turns(_READS_AT_ONCE)
        self._states = Turns(_STATES_AT_ONCE)
        self._simulations = Turns(1)
        self.asks: Mapping[str, Ask] = {
            "cluster": lambda _, c: cluster(c),
            "broker": lambda r, c: broker_configs(c, number(r, "id", 0, _PARTITION_MAX)),
            "topics": lambda r, c: topics(c, internal=text(r, "internal", "") == "true"),
            "topic": lambda r, c: topic(c, text(r, "topic")),
            "configs": lambda r, c: topic_configs(c, text(r, "topic")),
            "records": self._reading(self._records),
            "search": self._reading(self._search),
            "filter": self._reading(self._filter),
            "groups": lambda r, c: groups(c, text(r, "containing", "")),
            "group": lambda r, c: group(c, text(r, "group")),
            "transactions": lambda _, c: transactions(c),
            "access": lambda _, c: access(c),
            "sinks": self._reading(lambda _, c: sinks(c)),
            "sink": self._reading(lambda r, c: sink(c, text(r, "sink"))),
            "captures": self._reading(lambda _, c: captures(c)),
            "capture": self._reading(lambda r, c: capture(c, text(r, "capture"))),
            "states": self._reading(lambda _, c: states(c)),
            "state": self._reading(lambda r, c: state(c, text(r, "topic"))),
            "followers": lambda _, c: followers(c),
            "compaction": self._compaction,
            "rights_on_topic": lambda r, c: rights_on_topic(c, text(r, "topic")),
            "rights_on_group": lambda r, c: rights_on_group(c, text(r, "group")),
            "reset_plan": self._plan,
        }
        self.changes: Mapping[str, Ask] = {"produce": self._produce, "reset": self._reset}

    async def _compaction(self, request: Request, connections: BrokerConnections) -> Answer:
        async with self._states.of(request.state.owner):
            return await compaction(connections, self._operators, text(request, "topic"))

    async def simulation(self, request: Request, connections: BrokerConnections) -> Answer:
        """What a cleaning would free; one at a time."""
        given = await body(request)
        partition = whole("partition", given.get("partition"), 0, _PARTITION_MAX)
        name = given_text("topic", given.get("topic"))
        async with self._simulations.of(request.state.owner):
            return await simulation(connections, self._operators, name, partition)

    def _reading(self, ask: Ask) -> Ask:
        """An answer that fetches records, few of which are given at once."""

        async def asked(request: Request, connections: BrokerConnections) -> Answer:
            async with self._reads.of(request.state.owner):
                return await ask(request, connections)

        return asked

    async def _produce(self, request: Request, connections: BrokerConnections) -> Answer:
        given = await body(request, LARGE_BODY_BYTES_MAX)
        name, partition = given_text("topic", given.get("topic")), given.get("partition")
        if partition is not None:
            partition = whole("partition", partition, 0, _PARTITION_MAX)
        encode = self._apart.encode if self._apart.has_registry else None
        async with self._reads.of(request.state.owner):
            record = await new_record(given, encode)
        return await produce(connections, name, partition, record)

    async def _plan(self, request: Request, connections: BrokerConnections) -> Answer:
        target, topics = target_of(text(request, "to")), texts(request, "topic", _TOPICS_MAX)
        return await plan(connections, text(request, "group"), topics, target)

    async def _reset(self, request: Request, connections: BrokerConnections) -> Answer:
        given = await body(request, LARGE_BODY_BYTES_MAX)
        return await reset(connections, given_text("group", given.get("group")), given.get("moves"))

    async def _records(self, request: Request, connections: BrokerConnections) -> Answer:
        where, begin, which = place(request), start(request), isolation(request)
        return await records(connections, where, begin, _cut(request), which, self._by_schema())

    async def _search(self, request: Request, connections: BrokerConnections) -> Answer:
        where, wanted, which = place(request), key(request), isolation(request)
        before = number(request, "before", 0) if "before" in request.query_params else None
        cut = _cut(request)
        return await search(connections, where, wanted, before, cut, which, self._by_schema())

    async def _filter(self, request: Request, connections: BrokerConnections) -> Answer:
        where, begin, which = place(request), start(request), isolation(request)
        conditions = texts(request, "where", _CONDITIONS_MAX, _CONDITION_CHARACTERS_MAX)
        parse_conditions(conditions)
        cut = _cut(request)
        return await filter_records(connections, self._apart, where, begin, conditions, cut, which)

    def _by_schema(self) -> BySchema:
        return BySchema(self._apart.decode if self._apart.has_registry else None)


def _cut(request: Request) -> Cut:
    return Cut(
        number(request, "limit", 1, LIMIT_MAX, 50),
        number(request, "cut", 1, CUT_BYTES_MAX, 4_096),
    )
