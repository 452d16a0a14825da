"""Senders of many partitions share requests, and none of them suffers from another's fate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.write.simulated_leaders import (
    DROPPED,
    LEFT_OUT,
    LOST,
    NODES,
    PERHAPS,
    TOLD_TWICE,
    WELL,
    SimulatedLeaders,
)
from drumlin.client.errors import DeliveryFailed
from drumlin.client.write.partition_sender import Batch, PartitionSender
from drumlin.peer.retry import Deadline
from drumlin.records.plain.record import Record, encode_batch
from drumlin.wire.error_codes import ErrorCode
from rig.time.virtual_time import run_in_virtual_time

PARTITIONS = 3


class Put(NamedTuple):
    """A batch for a partition, so long after the one before it, with so much time."""

    partition: int
    after_ms: int = 0
    timeout_ms: int = 60_000


class Move(NamedTuple):
    """A partition has another leader from then on."""

    at_ms: int
    partition: int
    node_id: int


class Delivered(NamedTuple):
    """`batches` of a partition, in their order, and when the last of them was settled."""

    batches: list[Batch]
    settled_s: float


def deliver(leaders: SimulatedLeaders, puts: Sequence[Put], id_: str | None) -> Any:
    async def run() -> list[Delivered]:
        loop = asyncio.get_running_loop()
        senders = [
            PartitionSender(
                cast(Any, leaders),
                "t",
                each,
                -1,
                leaders.identify,
                is_idempotent=True,
                transactional_id=id_,
            )
            for each in range(PARTITIONS)
        ]
        batches: list[list[Batch]] = [[] for _ in senders]
        for put in puts:
            if put.after_ms:
                await asyncio.sleep(put.after_ms / 1000)
            mine = batches[put.partition]
            buffer = encode_batch([Record(0, 1, None, b"%d" % len(mine))])
            mine.append(Batch(buffer, Deadline(put.timeout_ms, loop.time)))
            senders[put.partition].put(mine[-1])

        async def settled(mine: list[Batch]) -> float:
            futures = (asyncio.wrap_future(each.done) for each in mine)
            await asyncio.gather(*futures, return_exceptions=True)
            return loop.time()

        times = await asyncio.gather(*map(settled, batches))
        return list(map(Delivered, batches, times))

    return run()


def check_exactly_once(leaders: SimulatedLeaders, delivered: list[Delivered]) -> None:
    for log, (batches, _) in zip(leaders.logs, delivered, strict=True):
        assert log.values == sorted(log.values, key=lambda value: int(value or b""))
        for number, batch in enumerate(batches):
            copies = log.values.count(b"%d" % number)
            failure = batch.done.exception()
            if failure is None:
                assert copies == 1
                assert log.values[batch.done.result().base_offset] == b"%d" % number
            else:
                assert isinstance(failure, DeliveryFailed)
                assert copies <= (1 if failure.may_be_written else 0)


_ALL = [Put(partition) for _ in range(20) for partition in range(PARTITIONS)]


@pytest.mark.parametrize("id_", [None, "x"])
def test_a_partition_that_is_refused_holds_up_no_other(id_: str | None) -> None:
    async def run() -> tuple[SimulatedLeaders, list[Delivered]]:
        leaders = SimulatedLeaders(PARTITIONS, iter(()), iter(()))
        leaders.refusals[1] = ErrorCode.not_enough_replicas
        return leaders, await deliver(leaders, _ALL, id_)

    leaders, delivered = run_in_virtual_time(run())
    check_exactly_once(leaders, delivered)
    assert [len(each.values) for each in leaders.logs] == [20, 0, 20]
    assert delivered[0].settled_s < 0.2
    assert delivered[2].settled_s < 0.2
    assert all(isinstance(each.done.exception(), DeliveryFailed) for each in delivered[1].batches)


@pytest.mark.parametrize("id_", [None, "x"])
def test_a_leader_that_is_gone_holds_up_no_other(id_: str | None) -> None:
    async def run() -> tuple[SimulatedLeaders, list[Delivered]]:
        leaders = SimulatedLeaders(PARTITIONS, iter(()), iter(()))
        leaders.leaders[1] = 2  # no broker knows it yet
        leaders.down.add(2)
        return leaders, await deliver(leaders, _ALL, id_)

    leaders, delivered = run_in_virtual_time(run())
    check_exactly_once(leaders, delivered)
    assert [len(each.values) for each in leaders.logs] == [20, 0, 20]
    assert max(delivered[0].settled_s, delivered[2].settled_s) < 0.2


def test_they_share_requests() -> None:
    async def run() -> SimulatedLeaders:
        leaders = SimulatedLeaders(PARTITIONS, iter(()), iter(()))
        await deliver(leaders, _ALL, None)
        return leaders

    assert set(run_in_virtual_time(run()).sizes) == {PARTITIONS}


_CODES = [
    ErrorCode.not_enough_replicas,
    ErrorCode.not_leader_or_follower,
    ErrorCode.message_too_large,
    *sorted(PERHAPS),
]
_DELAYS = st.sampled_from([0.002, 0.05, 0.3])


@settings(max_examples=300, database=None)
@given(
    st.lists(
        st.builds(
            Put,
            st.integers(0, PARTITIONS - 1),
            st.sampled_from([0, 0, 0, 5, 100]),
            st.sampled_from([100, 500, 5_000]),
        ),
        min_size=1,
        max_size=40,
    ),
    st.lists(st.tuples(st.sampled_from([WELL, WELL, LOST, DROPPED]), _DELAYS), max_size=20),
    st.lists(st.sampled_from([*[ErrorCode.none] * 4, *_CODES, LEFT_OUT, TOLD_TWICE]), max_size=60),
    st.lists(
        st.builds(
            Move,
            st.sampled_from([0, 3, 50, 200, 600]),
            st.integers(0, PARTITIONS - 1),
            st.sampled_from(NODES),
        ),
        max_size=6,
    ),
    st.sampled_from([None, "x"]),
)
def test_what_is_reported_is_true(
    puts: list[Put], requests: Any, batches: Any, moves: list[Move], id_: str | None
) -> None:
    async def run() -> None:
        leaders = SimulatedLeaders(PARTITIONS, iter(requests), iter(batches))
        loop = asyncio.get_running_loop()
        for at_ms, partition, node_id in moves:
            loop.call_at(at_ms / 1000, leaders.leaders.__setitem__, partition, node_id)
        check_exactly_once(leaders, await deliver(leaders, puts, id_))

    run_in_virtual_time(run())
