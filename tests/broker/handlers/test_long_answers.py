"""Answers of very many elements delay no other client: made in pieces, and encoded in a thread."""

from __future__ import annotations

import asyncio
import sys
import threading
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker.answers import answer_of
from broker.group_client import Client, ms, with_client
from broker.sessions import SESSION
from drumlin.broker import router as router_module
from drumlin.broker.handlers import find_coordinator, offset_fetch
from drumlin.broker.loop.threads import Threads
from drumlin.broker.router import Router
from drumlin.broker.several_apis.committable_offsets import SortedOut
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.coordination.groups.offsets.offset_batches import OffsetPacker
from drumlin.turns import to_end
from drumlin.wire.by_hand.commit_request import TopicOffsets
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO, EncodedBody, encode_request, is_long, let_go, parse_response
from rig.data.messages import build, request_shape, response_shape
from rig.time.stepped import Stepped

_MANY = 2_000


@pytest.mark.parametrize(("count", "is_encoded_apart"), [(_MANY, True), (3, False)])
def test_a_long_answer_of_a_coroutine_is_encoded_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, count: int, is_encoded_apart: bool
) -> None:
    encoded_by: list[int] = []
    encode_response = router_module.encode_response

    def encoding(*arguments: Any) -> Any:
        encoded_by.append(threading.get_ident())
        return encode_response(*arguments)

    async def find(*_: Any) -> Any:
        await asyncio.sleep(0)
        return find_coordinator._Found(ErrorCode.none, 1, "host", 9092)

    async def scenario() -> None:
        monkeypatch.setattr(router_module, "encode_response", encoding)
        monkeypatch.setattr(find_coordinator, "_find", find)
        broker: Any = SimpleNamespace(authorizer=None, quotas=None)
        broker.threads = SimpleNamespace(making=asyncio.to_thread)
        fields = {"key_type": 0, "coordinator_keys": [f"g{each}" for each in range(count)]}
        message = build("find_coordinator", 4, fields)
        frame = b"".join(encode_request("find_coordinator", 4, 1, "c", message))
        connection: Any = SimpleNamespace(closed=False, session=SESSION, counts=ListenerCounts())
        started = Router(broker).dispatch(connection, memoryview(frame)[4:])
        parts = await answer_of(started)
        assert parts is not None
        _, answer = parse_response("find_coordinator", 4, b"".join(parts)[4:])
        assert [each.key for each in answer.coordinators] == fields["coordinator_keys"]

    asyncio.run(scenario())
    (by,) = encoded_by
    assert (by != threading.get_ident()) is is_encoded_apart


def _share_states(topics: int, partitions: int) -> Any:
    shape = response_shape("delete_share_group_state", 0)
    results = [
        shape("PartitionResult", partition=each, error_code=ErrorCode.none, error_message=None)
        for each in range(partitions)
    ]
    states = [
        shape("DeleteStateResult", topic_id=UUID(int=1), partitions=tuple(results))
        for _ in range(topics)
    ]
    return shape("DeleteShareGroupStateResponse", results=tuple(states))


def test_elements_are_counted_at_any_depth() -> None:
    assert not is_long(EncodedBody(bytes(100_000)))
    assert not is_long(_share_states(0, 0))
    assert not is_long(_share_states(20, 20))
    assert is_long(_share_states(1, _MANY))
    assert is_long(_share_states(_MANY, 0))
    assert is_long(_share_states(40, 40))
    shape = response_shape("create_topics", 2)
    none = shape("CreateTopicsResponse", throttle_time=ZERO, topics=())
    assert not is_long(none)


@pytest.mark.parametrize("has_refused", [False, True])
def test_what_is_told_of_very_many_topics_is_made_in_steps(has_refused: bool) -> None:
    accepted = [TopicOffsets(f"t{each}", None, [0], [1], [-1]) for each in range(_MANY)]
    absent = ([0], [ErrorCode.unknown_topic_or_partition])
    refused = {"nope": absent} if has_refused else None
    sorted_out = SortedOut(list(accepted), refused)
    work = Stepped(sorted_out.results([ErrorCode.none] * _MANY))
    steps = 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            assert len(done.value) == _MANY + has_refused
            break
        steps += 1
    assert steps >= _MANY - 1


def test_a_batch_of_offsets_says_something_of_a_few_thousand_topics_only() -> None:
    packer = OffsetPacker("group", 1, bytes_max=100_000_000)
    for each in range(10_000):
        packer.add(TopicOffsets(f"t{each}", None, [0], [1], [-1]))
    batches = to_end(packer.batches())
    assert len(batches) == 5
    told = [topic.topic for batch in batches for topic in batch.topics]
    assert told == [f"t{each}" for each in range(10_000)]


def test_groups_of_a_request_are_counted_in_steps() -> None:
    groups = [SimpleNamespace(group_id=f"g{each}") for each in range(10_000)]
    work = offset_fetch._unlike(groups)
    assert Stepped(work).count() >= 10_000 + 10


def test_who_joins_with_more_than_100_protocols_is_refused() -> None:
    async def scenario(client: Client) -> None:
        protocol = request_shape("join_group", 5)(
            "JoinGroupRequestProtocol", name="p", metadata=b""
        )
        for count, code in ((101, ErrorCode.invalid_request), (100, ErrorCode.none)):
            answer = await client.ask(
                "join_group",
                3,
                group_id="g",
                session_timeout=ms(10_000),
                rebalance_timeout=ms(10_000),
                member_id="",
                protocol_type="consumer",
                protocols=(protocol,) * count,
            )
            assert answer.error_code is code

    with_client(scenario)


class _Element:
    """An element of a message; says when it is freed, and whether its own were freed first."""

    __slots__ = ("elements", "freed", "name")

    def __init__(self, freed: list[str], name: str, *elements: _Element) -> None:
        self.freed, self.name, self.elements = freed, name, elements

    def __del__(self) -> None:
        self.freed.append(self.name)


def test_a_message_is_freed_piece_by_piece() -> None:
    freed: list[str] = []
    kept = _Element(freed, "kept")
    topics = [_Element(freed, f"t{each}", _Element(freed, f"p{each}")) for each in range(3)]
    holder = [_Element(freed, "message", *topics, kept)]
    del topics
    let_go(holder)
    assert not holder
    assert freed == ["message", "t0", "t1", "t2", "p0", "p1", "p2"]
    let_go([EncodedBody(b"")])


def test_a_large_request_is_freed_in_a_thread_and_its_long_answer_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    freed: list[tuple[int, int]] = []

    def freeing(holder: list[Any]) -> None:
        freed.append((threading.get_ident(), sys.getrefcount(holder[0])))
        let_go(holder)

    async def scenario() -> None:
        monkeypatch.setattr(router_module, "let_go", freeing)
        threads = Threads()
        broker: Any = SimpleNamespace(threads=threads, authorizer=None, quotas=None)
        broker.metadata = SimpleNamespace(image=SimpleNamespace(topics={}))
        fields = {
            "topics": [{"name": f"t{each}", "partition_indexes": [0]} for each in range(9000)]
        }
        parts = encode_request(
            "describe_producers", 0, 1, "c", build("describe_producers", 0, fields)
        )
        connection: Any = SimpleNamespace(closed=False, session=SESSION, counts=ListenerCounts())
        started = Router(broker).dispatch(connection, memoryview(b"".join(parts))[4:])
        assert await answer_of(started)
        del started
        await asyncio.to_thread(threads.close)

    monkeypatch.setattr(router_module, "_LARGE_BYTES", 64 * 1024)
    asyncio.run(scenario())
    assert len(freed) == 2
    for thread, references in freed:
        assert thread != threading.get_ident()
        assert references == 2  # of the holder, and of the call that counts
