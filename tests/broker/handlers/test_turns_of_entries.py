"""Handlers give way for each entry of a request, also for those that there is little to do for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker.sessions import SESSION
from drumlin.broker.context import RequestContext
from drumlin.broker.handlers import (
    consumer_group_heartbeat,
    describe_producers,
    describe_share_group_offsets,
    describe_topic_partitions,
    list_offsets,
    offset_delete,
    offset_fetch,
    share_group_describe,
    share_group_heartbeat,
    write_txn_markers,
)
from drumlin.broker.several_apis import share_state_requests
from drumlin.coordination.groups.share.messages import DescribedMember
from drumlin.replication.partition_registry import PartitionRegistry
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import RequestHeader
from rig.time.stepped import Stepped
from rig.time.turn_lengths import single_steps

_ENTRIES = 5_000


def _context(api_key: int, version: int) -> RequestContext:
    broker: Any = SimpleNamespace(
        authorizer=None,
        quotas=None,
        partitions=PartitionRegistry(lambda *_: False),
        metadata=SimpleNamespace(image=SimpleNamespace(topics={})),
    )
    connection: Any = None
    return RequestContext(broker, connection, RequestHeader(api_key, version, 1, "c", 0), SESSION)


def test_a_partition_named_again_and_again_is_a_step_each_time() -> None:
    topic = SimpleNamespace(name="t", partition_indexes=(0,) * _ENTRIES)
    request = SimpleNamespace(topics=(topic,))
    work = describe_producers.handle(_context(61, 0), request)
    assert Stepped(work).count() >= _ENTRIES


@pytest.mark.parametrize(("topics", "partitions"), [(1, _ENTRIES), (_ENTRIES, 1)])
def test_what_list_offsets_asks_for_is_looked_at_in_steps(
    monkeypatch: pytest.MonkeyPatch, topics: int, partitions: int
) -> None:
    parts = tuple(
        SimpleNamespace(partition_index=each, timestamp=-1, current_leader_epoch=-1)
        for each in range(partitions)
    )
    request = SimpleNamespace(
        replica_id=-1,
        topics=tuple(SimpleNamespace(name=f"t{each}", partitions=parts) for each in range(topics)),
        isolation_level=0,
    )
    work = list_offsets.handle(_context(2, 5), request)

    async def nothing(*_: Any, **__: Any) -> None:
        return

    monkeypatch.setattr(list_offsets, "_respond", nothing)
    assert Stepped(work).count() == _ENTRIES / (partitions if partitions == 1 else 1000)
    work = list_offsets.handle(_context(2, 5), request)
    monkeypatch.undo()
    assert Stepped(work).count() >= _ENTRIES + topics


def test_what_list_offsets_is_asked_again_and_again_costs_no_step_for_its_answer() -> None:
    part = SimpleNamespace(partition_index=7, timestamp=-1, current_leader_epoch=-1)
    topics = (SimpleNamespace(name="t", partitions=(part,) * _ENTRIES),) * 2
    request = SimpleNamespace(topics=topics, isolation_level=0, replica_id=-1)
    work = Stepped(list_offsets.handle(_context(2, 5), request))
    steps = 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            ((told,),) = [topic.partitions for topic in done.value.topics]
            break
        steps += 1
    assert steps < 2 * _ENTRIES / 100
    assert told.partition_index == 7
    assert told.error_code is ErrorCode.invalid_request


def test_a_position_that_is_to_be_deleted_again_and_again_is_deleted_once() -> None:
    context = _context(47, 0)
    state = SimpleNamespace(partition=lambda index: index if index < 2 else None)
    context.broker.metadata.image.topics["t"] = state  # type: ignore[assignment]
    parts = tuple(SimpleNamespace(partition_index=each % 3) for each in range(_ENTRIES))
    topics = [SimpleNamespace(name="t", partitions=parts)]
    assert Stepped(offset_delete._sort(context, topics)).count() >= _ENTRIES
    unknown, known = to_end(offset_delete._sort(context, topics))
    assert list(known) == [("t", 0), ("t", 1)]
    assert len(unknown) == _ENTRIES // 3  # those are told each time


@pytest.mark.parametrize(
    ("module", "api_key", "fields"),
    [
        (consumer_group_heartbeat, 68, {"group_id": "g", "topic_partitions": ()}),
        (share_group_heartbeat, 76, {"group_id": "g"}),
    ],
)
def test_a_member_names_no_more_topics_than_can_be_looked_up_in_a_turn(
    module: Any, api_key: int, fields: dict[str, Any]
) -> None:
    context = _context(api_key, 1)
    context.broker.config = SimpleNamespace(group_coordinator_rebalance_protocols=["consumer"])  # type: ignore[assignment]
    request = SimpleNamespace(
        member_id="m", member_epoch=0, subscribed_topic_names=("t",) * 10_001, **fields
    )
    answer = module.handle(context, request)
    if asyncio.iscoroutine(answer):
        with pytest.raises(StopIteration) as done:
            answer.send(None)
        answer = done.value.value
    assert answer.error_code is ErrorCode.invalid_request


def test_what_a_member_owns_is_read_in_steps() -> None:
    """For a topic that is named again and again it owns all of its entries."""
    topics = [
        SimpleNamespace(topic_id=UUID(int=1 + each % 7), partitions=(each,))
        for each in range(_ENTRIES)
    ]
    assert Stepped(consumer_group_heartbeat._owned(topics)).count() >= _ENTRIES
    owned = to_end(consumer_group_heartbeat._owned(topics))
    assert len(owned) == 7
    assert sum(map(len, owned.values())) == _ENTRIES


def test_what_a_member_owns_of_one_topic_is_read_in_steps() -> None:
    topics = [SimpleNamespace(topic_id=UUID(int=1), partitions=tuple(range(_ENTRIES)))]
    assert Stepped(consumer_group_heartbeat._owned(topics)).count() > _ENTRIES // 1000
    assert to_end(consumer_group_heartbeat._owned(topics)) == {UUID(int=1): set(range(_ENTRIES))}


def test_a_member_owns_no_more_than_can_be_kept_in_a_turn() -> None:
    context = _context(68, 1)
    topic = SimpleNamespace(topic_id=UUID(int=1), partitions=tuple(range(50_001)))
    context.broker.config = SimpleNamespace(group_coordinator_rebalance_protocols=["consumer"])  # type: ignore[assignment]
    request = SimpleNamespace(group_id="g", subscribed_topic_names=None, topic_partitions=(topic,))
    work = consumer_group_heartbeat.handle(context, request)
    assert to_end(work).error_code is ErrorCode.invalid_request


def test_the_answer_about_markers_in_many_topics_is_made_in_steps() -> None:
    codes: dict[int, write_txn_markers.Codes] = {}
    codes[7] = {}
    for each in range(_ENTRIES):
        codes[7][f"t{each}", 0] = ErrorCode.none
    work = write_txn_markers._respond(codes)
    assert Stepped(work).count() >= 2 * _ENTRIES


@pytest.mark.parametrize("api", ["consumer_group_heartbeat", "share_group_heartbeat"])
def test_what_a_member_has_of_many_topics_is_told_in_steps(api: str) -> None:
    module = consumer_group_heartbeat if api.startswith("consumer") else share_group_heartbeat
    held: Any = {UUID(int=each + 1): (0, 1) for each in range(_ENTRIES)}
    work = module._assignment(held)
    assert Stepped(work).count() >= _ENTRIES
    told = to_end(module._assignment(held))
    assert {each.topic_id: each.partitions for each in told.topic_partitions} == held


def test_what_offset_fetch_asks_for_is_looked_at_in_steps() -> None:
    topics = [SimpleNamespace(name=f"t{each}", partition_indexes=(0,)) for each in range(_ENTRIES)]
    request = SimpleNamespace(topics=topics)
    assert Stepped(offset_fetch._asked(request)).count() >= _ENTRIES
    assert to_end(offset_fetch._asked(request))[-1] == (f"t{_ENTRIES - 1}", (0,))


@pytest.mark.parametrize(("names", "topics"), [("ab", 1), ("aa", 101)])
def test_what_is_asked_of_a_group_once_or_at_length_is_not_compared(
    names: str, topics: int
) -> None:
    """Other requests have their turn while thousands of topics are hashed."""

    class Group(SimpleNamespace):
        def __hash__(self) -> int:
            raise AssertionError("hashed")

    asked = [
        Group(group_id=each, topics=(SimpleNamespace(topic_name="t", partitions=()),) * topics)
        for each in names
    ]
    work = describe_share_group_offsets.handle(_context(90, 0), SimpleNamespace(groups=asked))
    answer = asyncio.run(work)
    assert [each.group_id for each in answer.groups] == list(names)


def test_a_refusal_of_many_topics_is_made_in_steps() -> None:
    wanted = [SimpleNamespace(name="")] * _ENTRIES
    code = ErrorCode.unknown_server_error
    work = describe_topic_partitions._refuse(wanted, code)
    assert Stepped(work).count() == _ENTRIES
    told = to_end(describe_topic_partitions._refuse(wanted, code)).topics
    assert [each.error_code for each in told] == [code] * _ENTRIES


def test_whether_very_many_topics_name_partitions_is_looked_at_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    single_steps(monkeypatch)
    topics = [SimpleNamespace(partitions=(0,))] * _ENTRIES

    async def main() -> int:
        looking = asyncio.create_task(share_state_requests._names_partitions(topics))
        count = 0
        while not looking.done():
            await asyncio.sleep(0)
            count += 1
        assert await looking
        topics[-1] = SimpleNamespace(partitions=())
        assert not await share_state_requests._names_partitions(topics)
        return count

    assert asyncio.run(main()) >= _ENTRIES


def test_each_member_of_a_share_group_is_described_in_its_turn() -> None:
    context = _context(77, 1)
    member = DescribedMember("m", None, 1, "c", "h", ("t",), {})
    group = SimpleNamespace(state_name="Stable", epoch=2, target=SimpleNamespace(epoch=1))
    group.describe = lambda: [member] * _ENTRIES
    context.broker.share_groups = SimpleNamespace(group=lambda _: group)  # type: ignore[assignment]
    request = SimpleNamespace(group_ids=("g",), include_authorized_operations=False)
    assert Stepped(share_group_describe.handle(context, request)).count() > _ENTRIES
    (told,) = to_end(share_group_describe.handle(context, request)).groups
    assert len(told.members) == _ENTRIES
