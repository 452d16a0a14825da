"""Messages between two processes: in order, whole, and an end that both sides notice."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.metadata.image import (
    BrokerState,
    ClusterImage,
    Endpoint,
    LastKnown,
    LogEnd,
    PartitionId,
    PartitionState,
    Resource,
    ResourceType,
    TopicState,
)
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.rules.leadership import Returned
from drumlin.metadata.shared import codec
from drumlin.metadata.shared.channel import (
    Channel,
    ChannelEnded,
    ChannelSilent,
    encode,
    encode_notification,
)
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.waiting import eventually


def run(scenario: Callable[[Channel, Channel], Awaitable[None]]) -> list[str]:
    """Run a scenario with both ends; the names of those that were told of an end."""
    ended: list[str] = []

    async def with_channels() -> None:
        sockets = socket.socketpair()
        one, other = [await Channel.open(each) for each in sockets]
        one.start(lambda: ended.append("one"))
        other.start(lambda: ended.append("other"))
        try:
            await scenario(one, other)
        finally:
            await one.close()
            await other.close()

    asyncio.run(with_channels())
    return ended


def test_questions_are_answered_or_refused() -> None:
    async def scenario(one: Channel, other: Channel) -> None:
        async def double(body: Any) -> Any:
            if body < 0:
                raise KafkaError(ErrorCode.invalid_request, "no")
            return 2 * body

        other.handle({"double": double})
        assert await asyncio.gather(*(one.ask("double", each) for each in range(5))) == [
            *range(0, 10, 2)
        ]
        with pytest.raises(KafkaError, match="invalid_request: no") as caught:
            await one.ask("double", -1)
        assert caught.value.code is ErrorCode.invalid_request
        with pytest.raises(KafkaError) as caught:  # TypeError there: nobody is left waiting
            await asyncio.wait_for(one.ask("double", "two"), 60)
        assert caught.value.code is ErrorCode.unknown_server_error

    run(scenario)


def test_an_answer_comes_after_what_was_told_before() -> None:
    """However large that is: it is read elsewhere, and what follows waits for it."""

    async def scenario(one: Channel, other: Channel) -> None:
        told: list[Any] = []
        one.take("news", lambda body: told.append(len(body)), reader=lambda body: body * 2)

        async def tell(count: int) -> None:
            for each in range(count):
                other.tell("news", "x" * (each % 3 * 100_000))

        other.handle({"tell": tell})
        await one.ask("tell", 30)
        assert told == [each % 3 * 200_000 for each in range(30)]

    run(scenario)


def test_whoever_waits_is_told_of_the_end() -> None:
    async def scenario(one: Channel, other: Channel) -> None:
        async def never(_: Any) -> None:
            await asyncio.Event().wait()

        other.handle({"never": never})
        waiting = asyncio.ensure_future(one.ask("never"))
        await eventually(lambda: other._at_work)
        await other.close()
        with pytest.raises(ChannelEnded):
            await asyncio.wait_for(waiting, 60)
        with pytest.raises(ChannelEnded):
            await one.ask("never")

    assert run(scenario) == ["one"]


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00\x00\x00\x04{{{{",
        b"\x00\x00\x00\x02[]",
        encode_notification("unknown", 1),
        encode([9, 9]),
    ],
)
def test_what_is_not_understood_ends_it(frame: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(one: Channel, other: Channel) -> None:
        other.send(frame)
        await eventually(lambda: "not understood" in caplog.text)

    assert run(scenario) == ["one"]


def test_a_caller_that_is_cancelled_leaves_the_others_alone() -> None:
    async def scenario(one: Channel, other: Channel) -> None:
        gate = asyncio.Event()

        async def wait(body: Any) -> Any:
            await gate.wait()
            return body

        other.handle({"wait": wait})
        first, second = (asyncio.ensure_future(one.ask("wait", each)) for each in (1, 2))
        await eventually(lambda: len(other._at_work) == 2)
        first.cancel()
        gate.set()
        assert await second == 2

    run(scenario)


# -- what the messages hold ------------------------------------------------------------------

_names = st.text(min_size=1, max_size=9)
_ids = st.integers(0, 2**31 - 1)
_tuples = st.lists(_ids, max_size=4).map(tuple)
_topic_ids = st.uuids()
_configs = st.dictionaries(_names, st.text(max_size=9), max_size=3)
_log_ends = st.builds(LogEnd, st.integers(-1, 99), st.integers(-1, 2**63 - 1))
_last_known = st.builds(LastKnown, _ids, _log_ends, st.booleans())
_states = st.builds(
    PartitionState,
    _ids,
    st.integers(-1, 99),
    st.integers(-1, 99),
    _tuples,
    _tuples,
    _ids,
    elr=_tuples,
    last_known=st.lists(_last_known, max_size=3).map(tuple),
    last_leader=st.integers(-1, 99),
)
_returned = st.builds(Returned, st.none() | _log_ends, st.booleans())
_brokers = st.builds(
    BrokerState,
    _ids,
    st.none() | _names,
    st.lists(st.builds(Endpoint, _names, _names, st.integers(1, 65535)), max_size=2).map(tuple),
    _ids,
)
_topics = st.builds(TopicState, _names, _topic_ids, st.lists(_states, max_size=3).map(tuple))
_resources = st.builds(Resource, st.sampled_from(ResourceType), _names)
_folders = st.dictionaries(_topic_ids, st.none() | st.lists(_names, max_size=2).map(tuple))


def through(body: Any) -> Any:
    """What the other side gets."""
    return Channel._decode(_Deaf(), encode([1, 0, body])[4:])[2]  # type: ignore[arg-type]


class _Deaf:
    def __init__(self) -> None:
        self._readers: dict[str, Any] = {}


@st.composite
def images(draw: st.DrawFn) -> ClusterImage:
    image = ClusterImage(draw(_names), draw(st.integers(-1, 9)))
    for broker in draw(st.lists(_brokers, max_size=3)):
        image.put_broker(broker)
    topics = draw(st.lists(_topics, max_size=3, unique_by=(lambda t: t.name, lambda t: t.topic_id)))
    for topic in topics:
        image.put_topic(topic)
    for resource, configs in draw(st.dictionaries(_resources, _configs, max_size=3)).items():
        image.put_configs(resource, configs)
    return image


@given(images(), _folders, st.frozensets(_topic_ids, max_size=3), st.booleans(), st.none() | _ids)
def test_a_snapshot_arrives_as_it_is(
    image: ClusterImage,
    folders: dict[UUID, tuple[str, ...] | None],
    deleted: frozenset[UUID],
    is_new: bool,
    last_epoch: int | None,
) -> None:
    snapshot = codec.Snapshot(image, folders, deleted, is_new, last_epoch)
    assert codec.read_snapshot(through(codec.write_snapshot(snapshot))) == snapshot


@given(st.builds(codec.States, _topic_ids, st.lists(_states).map(tuple), st.none() | _ids))
def test_states_arrive_as_they_are(states: codec.States) -> None:
    assert codec.read_states(through(codec.write_states(states))) == states


@given(st.dictionaries(st.builds(PartitionId, _topic_ids, _ids), _returned, max_size=3))
def test_what_a_broker_lacks_arrives(lacking: dict[PartitionId, Returned]) -> None:
    assert codec.read_lacking(through(codec.write_lacking(lacking))) == lacking


@given(_topics, _configs)
def test_a_topic_arrives_as_it_is(topic: TopicState, configs: dict[str, str]) -> None:
    assert codec.read_created(through(codec.write_created(topic, configs))) == (topic, configs)


@given(
    st.dictionaries(
        st.builds(PartitionId, _topic_ids, _ids),
        st.builds(IsrRequest, _ids, _ids, st.lists(st.tuples(_ids, st.integers(-1, 9))).map(tuple)),
        max_size=3,
    )
)
def test_wishes_arrive_as_they_are(wishes: dict[PartitionId, IsrRequest]) -> None:
    assert codec.read_isr_requests(through(codec.write_isr_requests(wishes))) == wishes
    assert codec.read_partition_ids(through(codec.write_partition_ids(wishes))) == [*wishes]


@given(_states)
def test_outcomes_arrive_as_they_are(state: PartitionState) -> None:
    error = KafkaError(ErrorCode.ineligible_replica, "why")
    granted, refused = map(codec.read_outcome, through(codec.write_outcomes([state, error])))
    assert granted == state
    assert isinstance(refused, KafkaError)
    assert (refused.code, refused.message) == (error.code, error.message)


# -- a process that hangs ----------------------------------------------------------------------


class Watched:
    """Two ends, of which one is watched by the other; and what is told of it."""

    LIMIT_S = 0.06

    def __init__(self, one: Channel, other: Channel) -> None:
        self.one, self.other = one, other
        self.told: list[bool] = []
        one.watch(self.LIMIT_S, self.told.append)

    def stop_other(self) -> None:
        """As SIGSTOP does: it sends nothing, and takes nothing."""
        self.other._writer.transport.pause_reading()  # type: ignore[attr-defined]
        assert self.other._watching is not None
        self.other._watching.cancel()

    def continue_other(self) -> None:
        self.other._writer.transport.resume_reading()  # type: ignore[attr-defined]
        self.other.watch(self.LIMIT_S, lambda _: None)


def test_what_hangs_is_noticed_and_so_is_its_return() -> None:
    async def scenario(one: Channel, other: Channel) -> None:
        watched = Watched(one, other)
        other.watch(watched.LIMIT_S, lambda _: None)
        await eventually(lambda: one._unheard == 0)
        watched.stop_other()
        asked = asyncio.ensure_future(one.ask("anything"))
        await eventually(lambda: watched.told == [True])
        with pytest.raises(ChannelSilent):  # what is under way
            await asked
        with pytest.raises(ChannelSilent):  # and what is to come
            await one.ask("anything")
        watched.continue_other()
        await eventually(lambda: watched.told == [True, False])

        async def answer(_: Any) -> str:
            return "here"

        other.handle({"anything": answer})
        assert await one.ask("anything") == "here"

    assert run(scenario) == []


def test_one_that_has_not_begun_does_not_hang() -> None:
    """Its process may be starting, on a machine that is slow."""

    async def scenario(one: Channel, other: Channel) -> None:
        watched = Watched(one, other)
        sent: list[bytes] = []
        one.send = sent.append  # type: ignore[method-assign]
        await eventually(lambda: len(sent) > 10)
        assert watched.told == []

    run(scenario)


def test_two_that_are_stopped_together_do_not_hang() -> None:
    """The time in which a process does not run itself is not counted."""

    async def scenario(one: Channel, other: Channel) -> None:
        watched = Watched(one, other)
        other.watch(watched.LIMIT_S, lambda _: None)
        await eventually(lambda: one._unheard == 0)
        for _ in range(5):
            time.sleep(2 * watched.LIMIT_S)  # noqa: ASYNC251  nothing runs meanwhile
            await asyncio.sleep(0)
        await eventually(lambda: one._unheard == 0)
        assert watched.told == []

    run(scenario)


def test_a_channel_to_one_that_hangs_is_closed_at_once() -> None:
    async def scenario(one: Channel, other: Channel) -> None:
        watched = Watched(one, other)
        other.watch(watched.LIMIT_S, lambda _: None)
        await eventually(lambda: one._unheard == 0)
        watched.stop_other()
        one.tell("much", "x" * (16 << 20))
        assert one.waiting_bytes
        await eventually(lambda: watched.told == [True])
        await asyncio.wait_for(one.close(), 20)

    run(scenario)
