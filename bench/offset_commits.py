"""OffsetCommit of consumers without membership: requests/s of one client, and of many at once.

Every request commits one group's position in each of some partitions, and is answered once that is
in `__consumer_offsets`. No request is like the one before: a client commits in turn for several
groups, with names of different length, and other offsets each time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from bench.brokers import Broker, brokers, require_no_error
from bench.crowd import Crowd
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from bench.load import GENERATOR, first_answer, request_frame
from rig.waiting import wait_until

_OFFSET_COMMIT, _FIND_COORDINATOR = 8, 4
_PARTITIONS = 10
#: Of each client: groups for which it commits, and requests until it starts again.
_GROUPS, _TURNS = 7, 64
_TARGET = 2.0
#: The coordinator loads, or Kafka's broker has not heard of the topic yet.
_NOT_YET = ("coordinator_load_in_progress", "not_coordinator", "unknown_topic_or_partition")


class Scenario(NamedTuple):
    name: str
    clients: int
    partitions: int


SCENARIOS = (
    Scenario("1 client, 1 partition", 1, 1),
    Scenario("32 clients, 1 partition each", 32, 1),
    Scenario("32 clients, 10 partitions each", 32, _PARTITIONS),
)


def run(options: Options) -> list[Comparison]:
    """Every scenario against both brokers."""
    results = []
    metrics = (
        Metric("rate", "commits/s", target=_TARGET),
        Metric("cpu", "broker CPU µs/commit", higher_is_better=False),
        GENERATOR,
    )
    with brokers(options) as (ours, theirs):
        for scenario in SCENARIOS:
            sides = {each.name: _round(each, scenario, options) for each in (ours, theirs)}
            results += compare("offset_commits", scenario.name, metrics, sides, options)
    return results


def _round(broker: Broker, scenario: Scenario, options: Options) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        with broker.topic(_PARTITIONS) as topic:
            frames = [
                [_frame(topic, client, turn, scenario) for turn in range(_TURNS)]
                for client in range(scenario.clients)
            ]
            for client, of_client in enumerate(frames):
                find_coordinator(broker, _group(client, 0))
                for frame in of_client[:_GROUPS]:
                    _once_committed(broker, frame)
            crowd = Crowd((broker.dial, of_client) for of_client in frames)
            with contextlib.closing(crowd), Stopwatch(broker.pid) as watch:
                count = crowd.run(options.seconds)
        return {
            "rate": count / watch.seconds,
            "cpu": 1e6 * watch.cpu_seconds / count,
            "generator": 100 * watch.own_cpu_seconds / watch.seconds,
        }

    return measure


def find_coordinator(broker: Broker, group_id: str) -> None:
    """Have the topic of the offsets created, and wait until the group can be asked."""

    def is_found() -> bool:
        answer = broker.ask(
            "find_coordinator", _FIND_COORDINATOR, key_type=0, coordinator_keys=[group_id]
        )
        return bool(answer.coordinators[0].error_code == 0)

    wait_until(is_found, f"{broker.name} to coordinate {group_id}", 60)


def _group(client: int, turn: int) -> str:
    return f"bench-{client:04}-{'g' * (turn % _GROUPS)}"


def _frame(topic: str, client: int, turn: int, scenario: Scenario) -> bytes:
    positions = [
        {
            "partition_index": partition,
            "committed_offset": (1 << 40) + turn,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        for partition in range(scenario.partitions)
    ]
    return request_frame(
        "offset_commit",
        _OFFSET_COMMIT,
        group_id=_group(client, turn),
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": topic, "partitions": positions}],
    )


def _once_committed(broker: Broker, frame: bytes) -> None:
    def is_committed() -> bool:
        _, answer = first_answer(broker.port, frame)
        code = answer.topics[0].partitions[0].error_code
        if code.name in _NOT_YET:
            return False
        require_no_error(answer.topics[0].partitions[0])
        return True

    wait_until(is_committed, f"{broker.name} to commit", 60)
