"""Fetches that wait, and what becomes of them; what they answer at once: `test_fetch_twin.py`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.answers import answer_of, content_of
from broker.fetches import TOPIC, VERSIONS, Fetches, begin_epoch, peer, with_broker
from broker.sessions import SESSION
from drumlin.broker.fetch_sessions import partition_read
from drumlin.broker.fetching.fetch import STEP
from drumlin.broker.loop.later import Later
from drumlin.records.batch.batch import iterate_headers
from drumlin.storage.segment import segment_list
from drumlin.storage.segment.file_slice import FileSlice
from drumlin.turns import _Line
from drumlin.wire.error_codes import ErrorCode, KafkaError, MalformedMessage
from drumlin.wire.messages import parse_response
from rig.time.turn_lengths import single_steps
from storage.samples import NOW_MS, from_producer, marker, prepared

_BATCHES = 30
_RECORDS = 4  # in a batch
_END = _BATCHES * _RECORDS
_FOR_LONG = {"max_wait": 60_000}


def fill(fetches: Fetches) -> None:
    for _ in range(_BATCHES):
        fetches.partition.append_as_leader(prepared(_RECORDS), 1, NOW_MS)


class Waiting:
    """A request that was not answered at once."""

    def __init__(self, started: Any) -> None:
        assert isinstance(started, Later)
        assert started.lets_pass
        self.later = started
        self.answers: list[Any] = []
        self._is_there = asyncio.Event()
        started.when_settled(self._take)

    def _take(self, later: Later) -> None:
        self.answers.append(later.result())
        self._is_there.set()

    async def content(self) -> bytes:
        await asyncio.wait_for(self._is_there.wait(), 20)
        (answer,) = self.answers
        return content_of(answer)


def test_a_fetch_waits_for_what_comes_next(tmp_path: Path) -> None:
    async def scenario(fetches: Fetches) -> None:
        fill(fetches)
        partition = fetches.partition
        frame = fetches.frame(17, _END, min_bytes=100, **_FOR_LONG)
        waiting = Waiting(fetches.start(frame))
        appended = 0
        while appended < 100:
            batch = prepared(1)
            partition.append_as_leader(batch, 1, NOW_MS)
            appended += len(batch.buffer)
        assert waiting.answers == []  # not in the midst of an append
        fetches.router.finish_woken()
        assert len(waiting.answers) == 1  # without a turn of the loop in between
        assert await waiting.content() == fetches.now(frame)
        assert len(partition.waiting) == 0

    with_broker(scenario, tmp_path)


@pytest.mark.parametrize("in_session", [False, True])
def test_a_fetch_is_answered_when_its_time_is_over(tmp_path: Path, in_session: bool) -> None:
    async def scenario(fetches: Fetches) -> None:
        fill(fetches)
        for version in VERSIONS:
            epoch = 0 if in_session else -1
            frame = fetches.frame(version, _END, max_wait=30, session_epoch=epoch)
            content = await Waiting(fetches.start(frame)).content()
            _, response = parse_response("fetch", version, content[4:])
            ((answer,),) = [each.partitions for each in response.responses]
            assert (answer.high_watermark, answer.records) == (_END, b"")

    with_broker(scenario, tmp_path)


def test_readers_of_committed_records_wait_for_such(tmp_path: Path) -> None:
    async def scenario(fetches: Fetches) -> None:
        partition = fetches.partition
        for epoch in (-1, 0):
            end = partition.high_watermark
            frame = fetches.frame(12, end, isolation_level=1, session_epoch=epoch, **_FOR_LONG)
            waiting = Waiting(fetches.start(frame))
            batch = from_producer(1 + epoch, is_transactional=True)
            partition.append_as_leader(batch, 1, NOW_MS)
            fetches.router.finish_woken()
            assert waiting.answers == []
            partition.append_internal(marker(commit=False), NOW_MS)
            fetches.router.finish_woken()
            _, response = parse_response("fetch", 12, (await waiting.content())[4:])
            (answer,) = response.responses[0].partitions
            assert [each.producer_id for each in answer.aborted_transactions] == [7]

    with_broker(scenario, tmp_path)


@pytest.mark.parametrize("epoch", [-1, 0])
@pytest.mark.parametrize("others_open", [0, 8])
def test_of_very_many_aborted_transactions_a_reader_gets_some_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int, others_open: int
) -> None:
    """The loop looks at few of them; no answer is of more, but for those of a single batch."""
    most = 4
    monkeypatch.setattr(segment_list, "_LOOKED_AT_ONCE_MAX", 2 * most)
    monkeypatch.setattr(partition_read, "_ABORTED_MAX", most)
    numbers = range(20, 50)

    async def scenario(fetches: Fetches) -> None:
        partition = fetches.partition

        def begin(producer_id: int) -> None:
            batch = from_producer(0, producer_id=producer_id, is_transactional=True)
            partition.append_as_leader(batch, 1, NOW_MS)

        def abort(producer_id: int) -> None:
            batch = marker(commit=False, producer_id=producer_id)
            partition.append_internal(batch, NOW_MS)

        for each in range(others_open):
            begin(each)
        for each in numbers:
            begin(each)
            abort(each)
        for each in range(others_open):
            abort(each)
        offset, answers, told, given = 0, 0, set[int](), set[int]()
        while offset < partition.last_stable_offset:
            fields = {"isolation_level": 1, "partition_max_bytes": 1 << 20, "session_epoch": epoch}
            response = await fetches.response(12, fetches.frame(12, offset, **fields))
            ((answer,),) = [each.partitions for each in response.responses]
            aborted = {each.producer_id for each in answer.aborted_transactions}
            headers = [header for _, header in iterate_headers(answer.records)]
            assert {each.producer_id for each in headers if not each.is_control} <= aborted
            assert len(aborted) <= most or len(headers) == 1
            told |= aborted
            given |= {each.base_offset for each in headers}
            offset, answers = headers[-1].end_offset, answers + 1
        assert told == {*range(others_open), *numbers}
        assert given == set(range(partition.last_stable_offset))
        assert answers >= len(numbers) / most

    with_broker(scenario, tmp_path)


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_waiting_fetch_sees_that_its_partition_is_gone(tmp_path: Path, epoch: int) -> None:
    async def scenario(fetches: Fetches) -> None:
        partition = fetches.partition
        frame = fetches.frame(12, 0, session_epoch=epoch, **_FOR_LONG)
        waiting = Waiting(fetches.start(frame))
        fetches.broker.partitions.remove(TOPIC, 0)
        _, response = parse_response("fetch", 12, (await waiting.content())[4:])
        (answer,) = response.responses[0].partitions
        assert answer.error_code is ErrorCode.not_leader_or_follower
        fetches.broker.partitions.add(partition)

    with_broker(scenario, tmp_path)


def test_nobody_is_left_waiting_for_a_peer_that_is_gone(tmp_path: Path) -> None:
    async def scenario(fetches: Fetches) -> None:
        given_up = [Waiting(fetches.start(fetches.frame(17, 0, **_FOR_LONG))) for _ in range(2)]
        given_up[0].later.cancel()
        assert len(fetches.partition.waiting) == 1
        fetches.partition.append_as_leader(prepared(1), 1, NOW_MS)
        given_up[1].later.cancel()  # between being woken and being answered
        fetches.router.finish_woken()
        assert [each.answers for each in given_up] == [[], []]
        assert len(fetches.partition.waiting) == 0

    with_broker(scenario, tmp_path)


@pytest.mark.parametrize("version", [6, 12])
def test_what_was_not_foreseen_is_answered(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(fetches: Fetches) -> None:
        waiting = fetches.start(fetches.frame(version, 0, **_FOR_LONG))
        monkeypatch.setattr(fetches.partition, "check_readable", lambda: 1 / 0)
        begin_epoch(fetches.partition, 5)
        fetches.router.finish_woken()
        if version < 7:  # there is no room for an error
            with pytest.raises(MalformedMessage):
                waiting.result()
        else:
            _, response = parse_response("fetch", version, content_of(waiting.result())[4:])
            assert response.error_code is ErrorCode.unknown_server_error
        assert "ZeroDivisionError" in caplog.text

    with_broker(scenario, tmp_path)


def test_a_log_that_has_to_be_looked_up_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(fetches: Fetches) -> None:
        for index in range(3):
            partition = fetches.broker.partitions.get(TOPIC, index)
            for _ in range(40):
                partition.append_as_leader(prepared(1), 1, NOW_MS)
        parts = [fetches.part(index, 3, partition_max_bytes=300) for index in range(3)]
        for version, epoch in ((4, -1), (12, -1), (12, 0)):
            topics = [fetches.topic(TOPIC, *parts)]
            frame = fetches.frame_of(version, topics, session_epoch=epoch)
            at_once = fetches.now(frame)
            with monkeypatch.context() as patched:
                in_memory = fetches.broker.logs._files
                patched.setattr(in_memory, "read_resident_at", _not_in_memory)
                patched.setattr(FileSlice, "is_resident", lambda _: False)
                cold = await Waiting(fetches.start(frame)).content()
            assert _without_session(cold, version) == _without_session(at_once, version)

    with_broker(scenario, tmp_path, partitions=3)


def _not_in_memory(*_: object) -> bytes:
    raise BlockingIOError


def _without_session(frame: bytes, version: int) -> list[Any]:
    _, response = parse_response("fetch", version, frame[4:])
    return list(response.responses)


def test_very_many_partitions_are_read_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No client waits while they are read, entered, left and written."""

    async def scenario(fetches: Fetches) -> None:
        waited = []
        wait = _Line.wait
        monkeypatch.setattr(_Line, "wait", lambda line: (waited.append(line), wait(line))[1])
        single_steps(monkeypatch)  # each step is a turn
        for epoch in (-1, 0):
            for index in (0, 299, 1500):
                partition = fetches.broker.partitions.find(TOPIC, index)
                if partition is not None:
                    partition.append_as_leader(prepared(), 1, NOW_MS)
            waited.clear()
            topic = fetches.topic(TOPIC, *[fetches.part(each, 0) for each in range(300)])
            frame = fetches.frame_of(12, [topic], session_epoch=epoch)
            content = await Waiting(fetches.start(frame)).content()
            assert len(waited) >= 2 * 300 // STEP  # the reading, the writing
            _, response = parse_response("fetch", 12, content[4:])
            answers = response.responses[0].partitions
            assert [each.partition_index for each in answers] == list(range(300))
            assert [each.partition_index for each in answers if each.records] == [0, 299]

    with_broker(scenario, tmp_path, partitions=300)


def test_whether_very_much_is_in_memory_is_looked_up_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, most = 0, 0
    is_resident = FileSlice.is_resident

    def look(piece: FileSlice) -> bool:
        nonlocal looks
        looks += 1
        return is_resident(piece)

    async def scenario(fetches: Fetches) -> None:
        nonlocal looks, most
        for index in range(300):
            fetches.broker.partitions.get(TOPIC, index).append_as_leader(prepared(), 1, NOW_MS)
        single_steps(monkeypatch)  # each step is a turn
        monkeypatch.setattr(FileSlice, "is_resident", look)
        topic = fetches.topic(TOPIC, *[fetches.part(each, 0) for each in range(300)])
        started = fetches.start(fetches.frame_of(12, [topic]))
        waiting = asyncio.create_task(Waiting(started).content())
        seen = 0
        while not waiting.done():
            await asyncio.sleep(0)
            most, seen = max(most, looks - seen), looks
        await waiting

    with_broker(scenario, tmp_path, partitions=300)
    assert looks >= 300
    assert most <= STEP


@pytest.mark.parametrize("epoch", [-1, 0])
def test_very_many_partitions_are_waited_for(tmp_path: Path, epoch: int) -> None:
    async def scenario(fetches: Fetches) -> None:
        topic = fetches.topic(TOPIC, *[fetches.part(each, 0) for each in range(300)])
        frame = fetches.frame_of(12, [topic], session_epoch=epoch, **_FOR_LONG)
        waiting = Waiting(fetches.start(frame))
        partition = fetches.broker.partitions.get(TOPIC, 250)
        for _ in range(1000):
            if len(partition.waiting):
                break
            await asyncio.sleep(0)
        partition.append_as_leader(prepared(), 1, NOW_MS)
        _, response = parse_response("fetch", 12, (await waiting.content())[4:])
        answers = response.responses[0].partitions
        assert sorted(each.partition_index for each in answers) == list(range(300))
        assert [each.partition_index for each in answers if each.records] == [250]

    with_broker(scenario, tmp_path, partitions=300)


def test_a_large_request_is_read_apart(tmp_path: Path) -> None:
    async def scenario(fetches: Fetches) -> None:
        fetches.partition.append_as_leader(prepared(), 1, NOW_MS)
        topic = fetches.topic(TOPIC, *[fetches.part(each, 0) for each in range(10_000)])
        for version, epoch in ((4, -1), (12, -1), (12, 0)):
            frame = fetches.frame_of(version, [topic], session_epoch=epoch, **_FOR_LONG)
            later = fetches.start(frame)
            assert isinstance(later, Later)
            assert not later.lets_pass
            response = await fetches.response(version, frame)
            answers = response.responses[0].partitions
            assert len(answers) == 10_000
            assert answers[0].records
            later.cancel()
        session = fetches.frame_of(12, [topic], session_id=5, session_epoch=7)
        response = await fetches.response(12, session)
        assert response.error_code is ErrorCode.fetch_session_id_not_found
        frame = fetches.frame_of(12, [topic])
        cut = fetches.router.dispatch(peer(), frame[:-2000])
        with pytest.raises(MalformedMessage):
            assert isinstance(cut, Later)
            await answer_of(cut)

    with_broker(scenario, tmp_path)


def test_the_last_mention_of_a_partition_counts(tmp_path: Path) -> None:
    async def scenario(fetches: Fetches) -> None:
        fill(fetches)
        parts = [fetches.part(0, 99_999), fetches.part(1, 0), fetches.part(0, 0)]
        topics = [fetches.topic(TOPIC, *parts), fetches.topic("nowhere"), fetches.topic(TOPIC)]
        response = await fetches.response(12, fetches.frame_of(12, topics))
        assert [each.topic for each in response.responses] == [TOPIC]
        answers = response.responses[0].partitions
        assert [each.partition_index for each in answers] == [0, 1]
        assert [bool(each.records) for each in answers] == [True, False]

    with_broker(scenario, tmp_path, partitions=2)


def test_a_session_that_is_not_there(tmp_path: Path) -> None:
    async def scenario(fetches: Fetches) -> None:
        frame = fetches.frame(12, 0, session_id=5, session_epoch=1)
        response = await fetches.response(12, frame)
        assert response.error_code is ErrorCode.fetch_session_id_not_found
        assert response.session_id == 0
        with pytest.raises(KafkaError):
            fetches.broker.fetch_sessions.find(5, 1, SESSION.owner, by_id=False)

    with_broker(scenario, tmp_path)
