"""Fetch sessions (KIP-227): which there are, and which of their partitions are looked at."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.fetches import TOPIC, Fetches, begin_epoch, with_broker
from broker.fetching.test_fetch import Waiting
from broker.sessions import SESSION
from drumlin.broker.fetch_sessions.partition_read import PartitionRead
from drumlin.broker.fetch_sessions.session import Session
from drumlin.broker.fetch_sessions.sessions import FetchSessions
from drumlin.clock import ManualClock
from drumlin.replication.partition import Partition
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import parse_response
from rig.time.stepped import Stepped
from rig.waiting import eventually
from storage.samples import NOW_MS, prepared

# -- the cache ---------------------------------------------------------------------------


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def sessions(clock: ManualClock) -> FetchSessions:
    return FetchSessions(2, clock)


@pytest.fixture
def narrow(clock: ManualClock) -> FetchSessions:
    """Room for ten partitions."""
    return FetchSessions(100, clock, max_partitions=10)


def name(session: Session, *partitions: int, forgotten: tuple[int, ...] = ()) -> None:
    wanted = [(each, -1, 0, -1, 1000) for each in partitions]
    to_end(session.follow([(b"t", wanted)], [(b"t", forgotten)]))


def start(sessions: FetchSessions, *partitions: int) -> Session:
    session = sessions.create(len(partitions), SESSION.owner, by_id=False)
    assert session is not None
    name(session, *partitions)
    sessions.recount(session)
    return session


def is_known(sessions: FetchSessions, session: Session) -> bool:
    try:
        return sessions.find(session.id, session.epoch, SESSION.owner, by_id=False) is session
    except KafkaError as error:
        assert error.code is ErrorCode.fetch_session_id_not_found
        return False


def test_no_two_collections_of_a_large_session_grow_in_one_step(clock: ManualClock) -> None:
    """Each is laid out again, as a whole, whenever it has become too small: a turn's work."""
    session = Session(1, clock.monotonic(), SESSION.owner, by_id=False)
    count = 30_000
    work = Stepped(session.follow([(b"t", [(each, -1, 0, -1, 1000) for each in range(count)])], []))
    sizes, most_grown = (0, 0), 0
    for _ in work:
        now = (sys.getsizeof(session._topics[b"t"]), sys.getsizeof(session.dirty))
        grown = sum(new != old for new, old in zip(now, sizes, strict=True))
        most_grown = max(most_grown, grown if now[0] > 10_000 else 0)
        sizes = now
    assert most_grown == 1
    assert len(session) == len(session.dirty) == count
    assert [each.wanted[0] for each in session.dirty] == list(range(count))


def test_what_a_follower_names_is_looked_at(sessions: FetchSessions) -> None:
    """As it has caught up, and nothing is new: it asks to be in sync."""
    for is_follower in (False, True):
        session = start(sessions, 0, 1)
        session.is_follower = is_follower
        session.dirty.clear()
        name(session, 1)
        assert len(session.dirty) == is_follower


def test_wrong_epochs_and_ids(sessions: FetchSessions) -> None:
    session = start(sessions, 0)
    assert session.id != 0
    for given_id, epoch, by_id, code in [
        (session.id, 2, False, ErrorCode.invalid_fetch_session_epoch),
        (session.id + 1, 1, False, ErrorCode.fetch_session_id_not_found),
        (session.id, 1, True, ErrorCode.fetch_session_topic_id_error),
    ]:
        with pytest.raises(KafkaError) as error:
            sessions.find(given_id, epoch, SESSION.owner, by_id=by_id)
        assert error.value.code is code
    sessions.use(session)
    assert sessions.find(session.id, 2, SESSION.owner, by_id=False) is session


def test_epochs_begin_again_at_one(sessions: FetchSessions) -> None:
    session = start(sessions, 0)
    session.epoch = 2**31 - 1
    sessions.use(session)
    assert session.epoch == 1


def test_a_full_cache_gives_no_session_until_one_is_stale(
    sessions: FetchSessions, clock: ManualClock
) -> None:
    first, second = start(sessions, 0), start(sessions, 1)
    assert sessions.create(1, SESSION.owner, by_id=False) is None
    clock.advance_ms(60_000)
    sessions.use(first)
    clock.advance_ms(61_000)
    third = start(sessions, 2)
    assert [is_known(sessions, each) for each in (first, second, third)] == [True, False, True]


def test_a_larger_one_takes_the_place_of_a_smaller_old_one(
    sessions: FetchSessions, clock: ManualClock
) -> None:
    small, large = start(sessions, 0), start(sessions, 0, 1)
    clock.advance_ms(121_000)
    for session in (small, large):
        sessions.use(session)
    assert sessions.create(1, SESSION.owner, by_id=False) is None
    start(sessions, 0, 1, 2)
    assert [is_known(sessions, each) for each in (small, large)] == [False, True]


def test_there_may_be_none_at_all(clock: ManualClock) -> None:
    assert FetchSessions(0, clock).create(1, SESSION.owner, by_id=False) is None


def test_whoever_adds_partitions_for_ever_loses_the_session(narrow: FetchSessions) -> None:
    small, greedy = start(narrow, 0, 1), start(narrow, 0)
    for partition in range(1, 8):
        name(greedy, partition)
        narrow.recount(greedy)
    name(greedy, 8)
    with pytest.raises(KafkaError) as error:
        narrow.recount(greedy)
    assert error.value.code is ErrorCode.fetch_session_id_not_found
    assert not is_known(narrow, greedy)
    assert is_known(narrow, small)
    start(narrow, *range(8))  # there is room again


def test_a_fetch_too_large_for_a_session_gets_none(narrow: FetchSessions) -> None:
    other = start(narrow, 0)
    assert narrow.create(11, SESSION.owner, by_id=False) is None
    assert is_known(narrow, other)


def test_the_largest_session_gives_way_to_a_smaller_one(narrow: FetchSessions) -> None:
    large, small = start(narrow, *range(7)), start(narrow, 0, 1)
    asking = start(narrow, 0, 1, 2)
    assert [is_known(narrow, each) for each in (large, small, asking)] == [False, True, True]


def test_nobody_gives_way_to_a_larger_one(narrow: FetchSessions) -> None:
    others = [start(narrow, *range(3)) for _ in range(3)]
    assert narrow.create(4, SESSION.owner, by_id=False) is None
    assert all(is_known(narrow, each) for each in others)


def test_nobody_gives_way_to_one_of_the_same_size(narrow: FetchSessions) -> None:
    """Else many readers of the same topics would push each other out, fetch after fetch."""
    others = [start(narrow, *range(5)) for _ in range(2)]
    assert narrow.create(5, SESSION.owner, by_id=False) is None
    assert all(is_known(narrow, each) for each in others)


def test_stale_sessions_give_way_to_larger_ones(narrow: FetchSessions, clock: ManualClock) -> None:
    stale = start(narrow, *range(3))
    clock.advance_ms(121_000)
    fresh = start(narrow, *range(3))
    start(narrow, *range(7))
    assert [is_known(narrow, each) for each in (stale, fresh)] == [False, True]


def test_partitions_that_are_forgotten_leave_room(narrow: FetchSessions) -> None:
    session = start(narrow, *range(10))
    name(session, forgotten=tuple(range(1, 10)))
    narrow.recount(session)
    start(narrow, *range(9))
    narrow.close(session.id, SESSION.owner)
    start(narrow, 0)


def test_names_that_no_topic_has_count_as_what_they_take(narrow: FetchSessions) -> None:
    session = start(narrow, 0)
    to_end(session.follow([(bytes(2000), [(0, -1, 0, -1, 1000)])], []))
    narrow.recount(session)
    assert session.weight == 9
    to_end(session.follow([], [(bytes(2000), [0])]))
    narrow.recount(session)
    assert session.weight == 1
    with pytest.raises(KafkaError):
        for number in range(10):
            to_end(session.follow([(b"%1000d" % number, [(0, -1, 0, -1, 1000)])], []))
            narrow.recount(session)
    assert not is_known(narrow, session)


def test_a_name_is_kept_once(sessions: FetchSessions) -> None:
    """However often requests bring it."""
    session = start(sessions, 0)
    for number in range(1, 5):
        to_end(session.follow([(bytes(bytearray(b"t")) * 1, [(number, -1, 0, -1, 1000)])], []))
        to_end(session.follow([(b"x" * number * 50, [(number, -1, 0, -1, 1000)])], []))
        to_end(session.follow([(bytes(bytearray(b"x" * 50)), [(number, -1, 0, -1, 1)])], []))
    names = {id(watched.topic) for watched in session.dirty}
    assert len(names) == len({watched.topic for watched in session.dirty})


# -- as consumers meet them --------------------------------------------------------------


class Reader:
    """Fetches in a session of the topic's partitions."""

    def __init__(self, fetches: Fetches, *partitions: int, version: int = 12) -> None:
        self.fetches = fetches
        self.version = version
        self.session_id = self.epoch = 0
        self.named = [fetches.part(each, 0) for each in partitions]

    def frame(self, *parts: Any, forgotten: tuple[int, ...] = (), **fields: Any) -> memoryview:
        gone = [{"topic": TOPIC, "partitions": list(forgotten)}] if forgotten else []
        named, self.named = [*self.named, *parts], []
        return self.fetches.frame_of(
            self.version,
            [self.fetches.topic(TOPIC, *named)] if named else [],
            session_id=self.session_id,
            session_epoch=self.epoch,
            forgotten_topics_data=gone,
            **fields,
        )

    async def fetch(self, *parts: Any, **fields: Any) -> dict[int, Any]:
        """The answers, in their order."""
        frame = self.frame(*parts, **fields)
        return self.taken(await self.fetches.response(self.version, frame))

    def taken(self, response: Any) -> dict[int, Any]:
        self.response = response
        if self.epoch == 0:
            self.session_id = response.session_id
        self.epoch += 1
        return {
            part.partition_index: part for each in response.responses for part in each.partitions
        }

    def begin_to_wait(self, *parts: Any, **fields: Any) -> Waiting:
        fields = {"max_wait": 60_000} | fields
        return Waiting(self.fetches.start(self.frame(*parts, **fields)))

    async def waited(self, waiting: Waiting) -> dict[int, Any]:
        return self.taken(parse_response("fetch", self.version, (await waiting.content())[4:])[1])


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions of which something was read."""
    looked: list[int] = []
    look = PartitionRead.look

    def counted(reading: PartitionRead, partition: Partition, *rest: Any, **more: Any) -> Any:
        looked.append(partition.index)
        return look(reading, partition, *rest, **more)

    monkeypatch.setattr(PartitionRead, "look", counted)
    return looked


def append(fetches: Fetches, *indexes: int) -> None:
    for index in indexes:
        fetches.broker.partitions.get(TOPIC, index).append_as_leader(prepared(), 1, NOW_MS)


def test_only_what_has_news_is_looked_at(tmp_path: Path, looks: list[int]) -> None:
    async def scenario(fetches: Fetches) -> None:
        reader = Reader(fetches, *range(50))
        assert list(await reader.fetch()) == list(range(50))
        looks.clear()
        assert await reader.fetch() == {}
        assert looks == []
        append(fetches, 7, 3)
        answers = await reader.fetch()
        assert [index for index, answer in answers.items() if answer.records] == [7, 3]
        assert looks == [7, 3]
        looks.clear()
        assert await reader.fetch(fetches.part(7, 1), fetches.part(3, 1)) == {}
        assert looks == [7, 3]  # there might have been more
        looks.clear()
        assert await reader.fetch() == {}
        assert looks == []

    with_broker(scenario, tmp_path, partitions=50)


def test_a_session_that_waits_is_read_once(tmp_path: Path, looks: list[int]) -> None:
    async def scenario(fetches: Fetches) -> None:
        reader = Reader(fetches, *range(50))
        await reader.fetch()
        looks.clear()
        waiting = reader.begin_to_wait(min_bytes=100)
        while not waiting.answers:
            append(fetches, 11)
            fetches.router.finish_woken()
        answers = await reader.waited(waiting)
        assert list(answers) == [11]
        assert len(answers[11].records) >= 100
        assert looks == [11]

    with_broker(scenario, tmp_path, partitions=50)


def _retain(partition: Partition) -> None:
    partition.log.delete_records_before(1)
    partition.waiting.note()


def _fail(partition: Partition) -> None:
    failure = OSError(errno.EIO, "Input/output error")
    partition.log.log_directory.failure = failure


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_retain, [1]),
        (lambda partition: partition.delete_records_before(1), [1]),
        (lambda partition: begin_epoch(partition, 9), []),
        (_fail, [0, 1, 2]),
    ],
)
def test_what_else_is_told(
    tmp_path: Path, change: Callable[[Partition], None], told: list[int]
) -> None:
    async def scenario(fetches: Fetches) -> None:
        append(fetches, 0, 1, 2)
        reader = Reader(fetches, 0, 1, 2)
        await reader.fetch()
        await reader.fetch(*[fetches.part(each, 1) for each in range(3)])
        assert await reader.fetch() == {}
        partition = fetches.broker.partitions.get(TOPIC, 1)
        change(partition)
        answers = await reader.fetch()
        assert list(answers) == told
        if change is _fail:
            assert answers[0].error_code is ErrorCode.kafka_storage_error
            assert list(await reader.fetch()) == told  # until it goes away
            partition.log.log_directory.failure = None
            answers = await reader.fetch()
            assert {each.error_code for each in answers.values()} == {ErrorCode.none}
            assert list(answers) == told
            assert await reader.fetch() == {}

    with_broker(scenario, tmp_path, partitions=3)


def test_a_leader_epoch_that_ends_is_told_to_whoever_believes_in_it(tmp_path: Path) -> None:
    async def scenario(fetches: Fetches) -> None:
        partition = fetches.partition
        reader = Reader(fetches)
        await reader.fetch(fetches.part(0, 0, current_leader_epoch=partition.leader_epoch))
        waiting = reader.begin_to_wait()
        begin_epoch(partition, partition.leader_epoch + 1)
        answers = await reader.waited(waiting)
        assert answers[0].error_code is ErrorCode.fenced_leader_epoch

    with_broker(scenario, tmp_path)


def test_a_topic_goes_and_another_one_of_its_name_comes(tmp_path: Path) -> None:
    async def scenario(fetches: Fetches) -> None:
        metadata = fetches.broker.metadata
        append(fetches, 0)
        by_name, by_id = Reader(fetches, 0), Reader(fetches, 0, version=13)
        for reader in (by_name, by_id):
            await reader.fetch()
            await reader.fetch(fetches.part(0, 1))
        waiting = by_name.begin_to_wait()
        await metadata.delete_topic(metadata.image.topics[TOPIC].topic_id)
        answers = await by_name.waited(waiting)
        assert answers[0].error_code is ErrorCode.unknown_topic_or_partition
        for _ in range(2):
            answers = await by_id.fetch()
            assert answers[0].error_code is ErrorCode.unknown_topic_id
        await metadata.create_topic(TOPIC, [[1]], {})
        answers = await by_name.fetch(fetches.part(0, 0))
        assert (answers[0].error_code, answers[0].high_watermark) == (ErrorCode.none, 0)
        waiting = by_name.begin_to_wait()
        append(fetches, 0)
        assert list(await by_name.waited(waiting)) == [0]
        assert (await by_id.fetch())[0].error_code is ErrorCode.unknown_topic_id

    with_broker(scenario, tmp_path)


def test_nobody_starves_behind_others(tmp_path: Path) -> None:
    async def scenario(fetches: Fetches) -> None:
        reader = Reader(fetches, *range(6))
        await reader.fetch()
        append(fetches, *range(6))
        served = []
        for _ in range(3):
            answers = await reader.fetch(max_bytes=100)
            served += [index for index, answer in answers.items() if answer.records]
            append(fetches, 0, 1)
        assert served[:6] == list(range(6))[: len(served[:6])]
        for _ in range(6):
            answers = await reader.fetch(max_bytes=100)
            served += [index for index, answer in answers.items() if answer.records]
        assert set(served) == set(range(6))

    with_broker(scenario, tmp_path, partitions=6)


def test_partitions_are_added_and_forgotten(tmp_path: Path) -> None:
    async def scenario(fetches: Fetches) -> None:
        rooms = [fetches.broker.partitions.get(TOPIC, each).waiting for each in range(3)]
        reader = Reader(fetches, 0, 1)
        await reader.fetch()
        assert list(await reader.fetch(fetches.part(2, 0), forgotten=(0,))) == [2]
        assert [len(room) for room in rooms] == [0, 1, 1]
        append(fetches, 0)
        assert await reader.fetch() == {}
        assert await reader.fetch(forgotten=(1, 2)) == {}
        assert reader.response.session_id == 0
        assert [len(room) for room in rooms] == [0, 0, 0]
        await reader.fetch()
        assert reader.response.error_code is ErrorCode.fetch_session_id_not_found

    with_broker(scenario, tmp_path, partitions=3)


def test_a_session_that_ends_watches_nothing(tmp_path: Path) -> None:
    async def scenario(fetches: Fetches) -> None:
        rooms = [fetches.broker.partitions.get(TOPIC, each).waiting for each in range(300)]
        first = Reader(fetches, *range(300))
        await first.fetch(isolation_level=1)
        assert {len(room) for room in rooms} == {2}
        again = Reader(fetches, *range(300))
        again.session_id = first.session_id
        await again.fetch()
        assert again.session_id not in (0, first.session_id)
        assert len(fetches.broker.fetch_sessions) == 1
        again.epoch = -1
        await again.fetch()  # while it does, what was left of the others has gone
        assert len(fetches.broker.fetch_sessions) == 0
        await eventually(lambda: {len(room) for room in rooms} == {0})

    with_broker(scenario, tmp_path, partitions=300)


def test_a_session_that_is_evicted_answers_who_waits_in_it(tmp_path: Path) -> None:
    async def scenario(fetches: Fetches) -> None:
        reader = Reader(fetches, 0)
        await reader.fetch()
        waiting = reader.begin_to_wait()
        fetches.broker.fetch_sessions.close(reader.session_id, SESSION.owner)
        assert await reader.waited(waiting) == {}
        assert reader.response.session_id == 0
        assert len(fetches.partition.waiting) == 0

    with_broker(scenario, tmp_path)


def test_requests_of_a_session_come_one_after_the_other(tmp_path: Path) -> None:
    async def scenario(fetches: Fetches) -> None:
        reader = Reader(fetches, 0, 1)
        await reader.fetch()
        first = reader.begin_to_wait()
        reader.epoch += 1
        second = reader.begin_to_wait()
        reader.epoch += 1
        reader.begin_to_wait().later.cancel()
        third = reader.begin_to_wait()
        reader.epoch -= 2
        wrong = parse_response("fetch", 12, fetches.now(reader.frame())[4:])[1]
        assert wrong.error_code is ErrorCode.invalid_fetch_session_epoch
        assert await reader.waited(first) == {}  # each makes room for the next one
        assert await reader.waited(second) == {}
        append(fetches, 1)
        assert list(await reader.waited(third)) == [1]
        assert reader.response.error_code is ErrorCode.none

    with_broker(scenario, tmp_path, partitions=2)
