"""How long groups take to become stable: one of many members, and many of one member each.

Bare clients with a connection for each member. `classic`: JoinGroup (with the id that the first
answer gives) and SyncGroup. `consumer` (KIP-848): heartbeats until the member has its partitions.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import resource
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Self

from bench.brokers import Broker, brokers
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from bench.offset_commits import find_coordinator
from drumlin.wire.messages import encode_request, parse_response
from rig.data.messages import build

_MEMBERS = 1000
#: Of the topic that a group of one reads; in a large group every member has one partition.
_PARTITIONS_OF_ONE = 10
_INITIAL_DELAY_MS = 500
_JOIN_GROUP, _SYNC_GROUP, _HEARTBEAT = 9, 5, 1
_SESSION_MS = 45_000
_REBALANCE_MS = 120_000
_NO_GENERATION = -1
_HEARTBEAT_PAUSE_S = 0.2
_LIMIT_S = 180
_SETTINGS = {
    "group.initial.rebalance.delay.ms": str(_INITIAL_DELAY_MS),
    "group.max.session.timeout.ms": "300000",
}
_numbers = itertools.count()


class Scenario(NamedTuple):
    name: str
    protocol: str
    groups: int
    members: int  # of each group

    @property
    def partitions(self) -> int:
        return max(self.members, _PARTITIONS_OF_ONE)


SCENARIOS = (
    Scenario("classic, 1,000 members", "classic", 1, _MEMBERS),
    Scenario("classic, 1,000 groups of 1", "classic", _MEMBERS, 1),
    Scenario("consumer, 1,000 members", "consumer", 1, _MEMBERS),
    Scenario("consumer, 1,000 groups of 1", "consumer", _MEMBERS, 1),
)


def run(options: Options) -> list[Comparison]:
    """Every scenario against both brokers."""
    _allow_descriptors(_MEMBERS + 500)
    results = []
    metrics = (
        Metric("seconds", "s until stable", higher_is_better=False, target=1.0),
        Metric("cpu", "broker CPU s", higher_is_better=False),
    )
    with brokers(options, _SETTINGS) as (ours, theirs):
        for scenario in SCENARIOS:
            sides = {each.name: _round(each, scenario, options) for each in (ours, theirs)}
            results += compare("groups", scenario.name, metrics, sides, options)
    return results


def _allow_descriptors(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


def _round(broker: Broker, scenario: Scenario, options: Options) -> Callable[[], Metrics]:
    member = {"classic": _join_classic, "consumer": _join_consumer}[scenario.protocol]

    def measure() -> Metrics:
        run_number = next(_numbers)
        with broker.topic(scenario.partitions) as topic:
            groups = [f"bench-{run_number}-{number}" for number in range(scenario.groups)]
            find_coordinator(broker, groups[0])
            with Stopwatch(broker.pid) as watch:
                seconds = asyncio.run(_join_all(broker, topic, groups, scenario, member))
        return {"seconds": seconds, "cpu": watch.cpu_seconds}

    return measure


async def _join_all(
    broker: Broker,
    topic: str,
    groups: list[str],
    scenario: Scenario,
    member: Callable[..., Coroutine[Any, Any, None]],
) -> float:
    """The time from the first request until every member has what it is to have."""
    async with contextlib.AsyncExitStack() as stack:
        wires = [
            await stack.enter_async_context(_Wire(broker.port))
            for _ in range(scenario.groups * scenario.members)
        ]
        everybody = asyncio.Event()
        start_s = time.perf_counter()
        share = scenario.partitions // scenario.members
        waiting = _Count(len(wires), everybody)
        tasks = [
            asyncio.create_task(
                member(wire, groups[number // scenario.members], topic, share, waiting)
            )
            for number, wire in enumerate(wires)
        ]
        await asyncio.wait_for(asyncio.gather(*tasks), _LIMIT_S)
        return waiting.finished_s - start_s


class _Count:
    """Counts members that have what they are to have."""

    def __init__(self, count: int, done: asyncio.Event) -> None:
        self._left = count
        self.done = done
        self.finished_s = 0.0

    def one_more(self) -> None:
        self._left -= 1
        if not self._left:
            self.finished_s = time.perf_counter()
            self.done.set()

    def one_less(self) -> None:
        """A member has lost what it had: others have come."""
        self._left += 1


class _Wire:
    """One connection with one request at a time; the same one again is not encoded again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._asked: tuple[str, dict[str, Any]] | None = None
        self._frame = b""

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def ask(self, api: str, version: int, **fields: Any) -> Any:
        if self._asked != (api, fields):
            message = build(api, version, fields)
            self._frame = b"".join(encode_request(api, version, 1, "bench", message))
            self._asked = api, fields
        self._writer.write(self._frame)
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return parse_response(api, version, await self._reader.readexactly(size))[1]


# -- classic -----------------------------------------------------------------------------------


async def _join_classic(
    wire: _Wire, group_id: str, topic: str, share: int, waiting: _Count
) -> None:
    member_id, is_stable = "", False
    while not waiting.done.is_set():
        answer = await wire.ask(
            "join_group",
            _JOIN_GROUP,
            group_id=group_id,
            session_timeout=_SESSION_MS,
            rebalance_timeout=_REBALANCE_MS,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}],
        )
        member_id = answer.member_id
        if answer.error_code != 0:
            continue  # MEMBER_ID_REQUIRED, a rebalance, or a coordinator that is not ready yet
        assignments = [
            {"member_id": each.member_id, "assignment": b"\0\0\0\0\0\0\0\0\0\0"}
            for each in answer.members
        ]
        generation = answer.generation_id
        answer = await wire.ask(
            "sync_group",
            _SYNC_GROUP,
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        if answer.error_code != 0:
            continue
        waiting.one_more()
        is_stable = True
        while is_stable and not waiting.done.is_set():
            await _pause(waiting.done)
            answer = await wire.ask(
                "heartbeat",
                4,
                group_id=group_id,
                generation_id=generation,
                member_id=member_id,
            )
            if answer.error_code != 0:
                waiting.one_less()
                is_stable = False


async def _pause(done: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(done.wait(), _HEARTBEAT_PAUSE_S)


# -- KIP-848 -----------------------------------------------------------------------------------


async def _join_consumer(
    wire: _Wire, group_id: str, topic: str, share: int, waiting: _Count
) -> None:
    """Done when the member owns its share; what it is to give up it gives up at once."""
    member_id = f"member-{next(_numbers)}"
    owned: list[dict[str, Any]] = []
    epoch, is_done = 0, False
    while not waiting.done.is_set():
        answer = await wire.ask(
            "consumer_group_heartbeat",
            _HEARTBEAT,
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout=_REBALANCE_MS if epoch == 0 else -1,
            subscribed_topic_names=[topic] if epoch == 0 else None,
            topic_partitions=owned,
        )
        if answer.error_code != 0:
            raise RuntimeError(f"a member was refused: {answer}")
        epoch = answer.member_epoch
        if answer.assignment is not None:
            owned = [
                {"topic_id": each.topic_id, "partitions": list(each.partitions)}
                for each in answer.assignment.topic_partitions
            ]
        has_share = sum(len(each["partitions"]) for each in owned) == share
        if has_share != is_done:
            is_done = has_share
            (waiting.one_more if is_done else waiting.one_less)()
        await _pause(waiting.done)
