"""What share requests leave in the broker, and what becomes of repeated ones."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker.in_process import running
from broker.sessions import SESSION
from drumlin.broker.context import RequestContext
from drumlin.broker.handlers import share_acknowledge, share_fetch
from drumlin.broker.loop.later import Later
from drumlin.broker.share_fetch import acknowledgements as acknowledging
from drumlin.broker.share_fetch.acknowledgements import acknowledgements, begin_to_acknowledge
from drumlin.broker.share_fetch.fetch import ShareFetch
from drumlin.broker.share_fetch.readable import denies_nothing
from drumlin.broker.share_partitions.reads import read_batches
from drumlin.broker.share_partitions.sessions import Member, SessionPartition
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.coordination.share.delivery.acknowledgement import check_request
from drumlin.coordination.share.delivery.fetched_batches import AcquireMode, InclusiveRange, Limits
from drumlin.turns import to_end
from drumlin.wire.messages import RequestHeader
from drumlin.wire.protocol.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from rig.time.stepped import Stepped
from rig.time.turn_lengths import single_steps
from storage.samples import prepared

_TOPIC_ID = UUID(int=7)
_RENEWS = {"knows_renew": True, "says_renew": False}


def _accepted(offset: int) -> Any:
    return SimpleNamespace(first_offset=offset, last_offset=offset, acknowledge_types=[1])


def _partition(*offsets: int) -> Any:
    batches = [_accepted(each) for each in offsets]
    return SimpleNamespace(partition_index=0, acknowledgement_batches=batches)


def test_a_partition_that_is_named_twice_is_acknowledged_twice() -> None:
    partitions = [_partition(0), _partition(), _partition(1, 2)]
    topic = SimpleNamespace(topic_id=_TOPIC_ID, partitions=partitions)
    again = SimpleNamespace(topic_id=_TOPIC_ID, partitions=[_partition(5)])
    said = to_end(acknowledgements([topic, again]))
    ((shared, batches),) = said.items()
    assert shared == SessionPartition(_TOPIC_ID, 0)
    assert [each.first_offset for each in batches] == [0, 1, 2, 5]


def test_only_groups_with_sessions_are_remembered(tmp_path: Path) -> None:
    """A request may outlive its session, and a client may invent as many groups as it likes."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            shares, member = broker.shares, Member("g", "m")
            assert shares.settings("g") is not shares.settings("g")
            shares.sessions.open(member, SESSION.owner, (), 1, 10, acknowledges=False)
            assert shares.settings("g") is shares.settings("g")
            remembered = shares.settings("g")
            shares.close_session(member)
            assert shares.settings("g") is not remembered

    asyncio.run(main())


def test_very_many_acknowledgements_are_read_and_taken_in_turns(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            one = SimpleNamespace(topic_id=_TOPIC_ID, partitions=[_partition(*range(500))])
            many = [
                SimpleNamespace(topic_id=UUID(int=each + 100), partitions=[_partition(0)])
                for each in range(500)
            ]
            steps, said = _counted(acknowledgements([one, *many]))
            assert steps >= 1_000
            begun = begin_to_acknowledge(
                broker.shares,
                Member("g", "m"),
                said,
                denies_nothing,
                knows_renew=True,
                says_renew=False,
            )
            steps, acknowledging = _counted(begun)
            assert steps >= 500
            assert len(await acknowledging.answers()) == 501
            steps, _ = _counted(check_request(said[SessionPartition(_TOPIC_ID, 0)], **_RENEWS))
            assert steps >= 500

    asyncio.run(main())


def _counted(coroutine: Coroutine[Any, Any, Any]) -> tuple[int, Any]:
    """How often others might have had their turn, and the result."""
    work = Stepped(coroutine)
    for steps in itertools.count():
        try:
            next(work)
        except StopIteration as done:
            return steps, done.value
    raise AssertionError


@pytest.mark.parametrize("comes_again", [False, True])
def test_a_session_of_very_many_partitions_ends_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, comes_again: bool
) -> None:
    """A member that rejoins meanwhile keeps what it had: the release ends then."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            shares, member = broker.shares, Member("g", "m")
            many = [SessionPartition(_TOPIC_ID, each) for each in range(5_000)]
            session = shares.sessions.open(member, SESSION.owner, many, 1, 10, acknowledges=False)
            single_steps(monkeypatch)
            shares.close_session(member)
            assert len(session.partitions) > 4_900
            if comes_again:
                shares.sessions.open(member, SESSION.owner, (), 1, 10, acknowledges=False)
            for _ in range(50_000):
                if not session.partitions:
                    break
                await asyncio.sleep(0)
            assert bool(session.partitions) == comes_again

    asyncio.run(main())


def test_a_fetch_begins_to_load_few_partitions_in_a_turn(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            shares, member = broker.shares, Member("g", "m")
            await broker.metadata.create_topic("t", [[1]] * 100, {}, _TOPIC_ID)
            many = [SessionPartition(_TOPIC_ID, each) for each in range(100)]
            session = shares.sessions.open(member, SESSION.owner, many, 1, 10, acknowledges=False)
            limits = Limits(1, 1, AcquireMode.BATCH_OPTIMIZED)
            fetch = ShareFetch(
                broker,
                session,
                denies_nothing,
                many,
                limits,
                min_bytes=1,
                max_bytes=1,
                max_wait_s=0,
            )
            opening, most, before = asyncio.create_task(fetch._open_all()), 0, 0
            while not opening.done():
                await asyncio.sleep(0)
                most, before = max(most, len(fetch._live) - before), len(fetch._live)
            assert before == 100
            assert 0 < most <= 8

    asyncio.run(main())


def test_very_many_sessions_of_one_connection_end_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is released of members that rejoined by another connection."""
    closed: list[Callable[[], None]] = []
    connection: Any = SimpleNamespace(tell_when_closed=closed.append)
    count = 500

    async def main() -> None:
        async with running(tmp_path) as broker:
            shares, number = broker.shares, id(connection)
            many = [SessionPartition(_TOPIC_ID, each) for each in range(50)]
            shares.watch(connection)
            shares.watch(connection)
            for each in range(count):
                member = Member("g", f"m{each}")
                shares.sessions.open(member, SESSION.owner, many, number, 1_000, acknowledges=False)
            again = Member("g", f"m{count - 1}")
            single_steps(monkeypatch)
            (tell,) = closed
            tell()
            kept = shares.sessions.open(
                again, SESSION.owner, (), number + 1, 1_000, acknowledges=False
            )
            most, before = 0, len(shares.sessions)
            assert before >= count - 1
            while len(shares.sessions) > 1:
                await asyncio.sleep(0)
                most, before = max(most, before - len(shares.sessions)), len(shares.sessions)
            assert most <= 2
            for _ in range(10):
                await asyncio.sleep(0)
            assert shares.sessions.get(again, SESSION.owner) is kept
            assert not shares.sessions.of_connection(number)

    asyncio.run(main())


def test_a_partition_of_very_many_batches_is_read_in_pieces(tmp_path: Path) -> None:
    """Records far ahead are found, too, if those before them were cleaned away."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[1]], {}, _TOPIC_ID)
            await asyncio.sleep(0)
            while broker.partitions.find("t", 0) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            partition = broker.partitions.get("t", 0)
            for _ in range(600):
                partition.append_as_leader(prepared(1), 1, broker.clock.wall_ms())
            read = partial(read_batches, partition, minimum_one_batch=True, may_block=True)
            found = read(0, 1 << 20, 0, 10_000)
            assert found is not None
            assert found.is_cut
            assert found.fetched.last_offset == 499
            rest = read(500, 1 << 20, 0, 10_000)
            assert rest is not None
            assert (rest.is_cut, rest.fetched.last_offset) == (False, 599)
            behind = read(500, 1 << 20, 0, 200)
            assert behind is not None
            assert (behind.is_cut, behind.fetched.batches) == (True, [InclusiveRange(500, 500)])
            for each in (found, rest, behind):
                each.slice.release()

    asyncio.run(main())


def _context(broker: Any) -> RequestContext:
    connection: Any = SimpleNamespace(
        tell_when_closed=lambda _: None, session=SESSION, counts=ListenerCounts()
    )
    return RequestContext(broker, connection, RequestHeader(78, 1, 1, "c", 0), SESSION)


def test_a_fetch_that_waits_keeps_no_request(tmp_path: Path) -> None:
    """A large request is freed in a thread, which needs its last reference."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[1]], {}, _TOPIC_ID)
            partition = FetchPartition(partition_index=0, acknowledgement_batches=())
            request = ShareFetchRequest(
                group_id="g",
                member_id="m",
                share_session_epoch=0,
                max_wait=timedelta(seconds=20),
                min_bytes=1,
                max_records=1,
                batch_size=1,
                topics=(FetchTopic(topic_id=_TOPIC_ID, partitions=(partition,)),),
                forgotten_topics_data=(),
            )
            alone = sys.getrefcount(request)
            answer = await share_fetch.handle(_context(broker), request)
            assert isinstance(answer, Later)
            assert not answer.is_settled
            assert sys.getrefcount(request) == alone
            answer.cancel()

    asyncio.run(main())


def test_what_an_acknowledgement_has_gathered_is_freed_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed = 0

    class Counted(SessionPartition):
        __slots__ = ()

        def __del__(self) -> None:
            nonlocal freed
            freed += 1

    async def main() -> None:
        async with running(tmp_path) as broker:
            monkeypatch.setattr(acknowledging, "SessionPartition", Counted)
            context, member = _context(broker), Member("g", "m")
            broker.shares.sessions.open(member, SESSION.owner, (), 1, 10, acknowledges=False)
            request: Any = SimpleNamespace(
                group_id="g",
                member_id="m",
                share_session_epoch=1,
                is_renew_ack=False,
                topics=[
                    SimpleNamespace(topic_id=UUID(int=each + 100), partitions=[_partition(0)])
                    for each in range(500)
                ],
            )
            work, before_end = Stepped(share_acknowledge.handle(context, request)), 0
            for _ in work:
                before_end = freed
            assert freed == 500
            assert before_end >= 499

    asyncio.run(main())
