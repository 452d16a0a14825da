"""Answers that healthy brokers give seldom or never: the consumer continues, or says why not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.client.errors import (
    BrokerUnreachable,
    ClientError,
    CommitFailed,
    CorruptData,
    LogTruncated,
    RequestRefused,
)
from drumlin.records.batch.batch import assign_offsets
from drumlin.records.plain.record import Record, encode_batch
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import CloseConnection, ScriptedBroker
from rig.data.messages import Shape
from rig.waiting import wait_until

WAIT_MS = 20_000
PLACE = ("t", 0)


class Log:
    """Batches of ten records, one a fetch. `epoch_ends` is what offset_for_leader_epoch says."""

    def __init__(self, broker: ScriptedBroker, batches: int = 10) -> None:
        self.batches = [self.batch(each) for each in range(batches)]
        self.epoch_end = batches * 10
        self.fetches: list[tuple[int, int]] = []
        self.committed = -1
        self.commits: list[int] = []
        for name in (
            "fetch",
            "list_offsets",
            "find_coordinator",
            "offset_fetch",
            "offset_commit",
            "offset_for_leader_epoch",
        ):
            broker.script(name, getattr(self, name))
        self._port = broker.port

    @staticmethod
    def batch(index: int) -> bytes:
        records = [Record(index * 10 + each, 0, None, b"v") for each in range(10)]
        buffer = encode_batch(records, base_offset=index * 10)
        assign_offsets(buffer, 0, index * 10, 0)
        return bytes(buffer)

    def fetch(self, shape: Shape, request: Any, code: ErrorCode = ErrorCode.none) -> Any:
        wanted = request.topics[0].partitions[0]
        self.fetches.append((wanted.fetch_offset, wanted.current_leader_epoch))
        index = wanted.fetch_offset // 10
        found = b"" if code is not ErrorCode.none else b"".join(self.batches[index : index + 1])
        partition = shape(
            "PartitionData",
            partition_index=0,
            error_code=code,
            high_watermark=len(self.batches) * 10,
            last_stable_offset=len(self.batches) * 10,
            log_start_offset=0,
            aborted_transactions=(),
            records=found,
        )
        topic = shape("FetchableTopicResponse", topic="t", partitions=(partition,))
        return shape(
            "FetchResponse", throttle_time=ZERO, error_code=ErrorCode.none, responses=(topic,)
        )

    def list_offsets(self, shape: Shape, request: Any) -> Any:
        asked = request.topics[0].partitions[0]
        each = shape(
            "ListOffsetsPartitionResponse",
            partition_index=0,
            error_code=ErrorCode.none,
            offset=0 if asked.timestamp == -2 else len(self.batches) * 10,
        )
        topic = shape("ListOffsetsTopicResponse", name="t", partitions=(each,))
        return shape("ListOffsetsResponse", throttle_time=ZERO, topics=(topic,))

    def find_coordinator(self, shape: Shape, request: Any, node_id: int = 1) -> Any:
        where = {"node_id": node_id, "host": "127.0.0.1", "port": self._port}
        found = shape(
            "Coordinator", key="g", error_code=ErrorCode.none, error_message=None, **where
        )
        return shape("FindCoordinatorResponse", throttle_time=ZERO, coordinators=(found,))

    def offset_fetch(self, shape: Shape, request: Any, code: ErrorCode = ErrorCode.none) -> Any:
        each = shape(
            "OffsetFetchResponsePartitions",
            partition_index=0,
            committed_offset=self.committed,
            committed_leader_epoch=0 if self.committed >= 0 else -1,
            metadata="",
            error_code=ErrorCode.none,
        )
        topic = shape("OffsetFetchResponseTopics", name="t", partitions=(each,))
        group = shape("OffsetFetchResponseGroup", group_id="g", topics=(topic,), error_code=code)
        return shape("OffsetFetchResponse", throttle_time=ZERO, groups=(group,))

    def offset_commit(self, shape: Shape, request: Any, code: ErrorCode = ErrorCode.none) -> Any:
        if code is ErrorCode.none:
            self.commits.append(request.topics[0].partitions[0].committed_offset)
        each = shape("OffsetCommitResponsePartition", partition_index=0, error_code=code)
        topic = shape("OffsetCommitResponseTopic", name="t", partitions=(each,))
        return shape("OffsetCommitResponse", throttle_time=ZERO, topics=(topic,))

    def offset_for_leader_epoch(self, shape: Shape, request: Any) -> Any:
        each = shape(
            "EpochEndOffset",
            error_code=ErrorCode.none,
            partition=0,
            leader_epoch=0,
            end_offset=self.epoch_end,
        )
        topic = shape("OffsetForLeaderTopicResult", topic="t", partitions=(each,))
        return shape("OffsetForLeaderEpochResponse", throttle_time=ZERO, topics=(topic,))


def failing(answer: Callable[..., Any], code: ErrorCode) -> Callable[[Shape, Any], Any]:
    return lambda shape, request: answer(shape, request, code)


class EpochBroker(ScriptedBroker):
    """Says in its metadata which leader epoch it has."""

    epoch = 0

    def metadata(self, shape: Shape, request: Any) -> Any:
        response = super().metadata(shape, request)
        for topic in response.topics:
            for each in topic.partitions:
                object.__setattr__(each, "leader_epoch", self.epoch)
        return response


@pytest.fixture
def broker() -> Iterator[EpochBroker]:
    with EpochBroker({"t": 1}) as broker:
        yield broker


@pytest.fixture
def log(broker: EpochBroker) -> Log:
    return Log(broker)


@pytest.fixture
def client(broker: EpochBroker) -> Iterator[Client]:
    options = {"request_timeout_ms": 2_000, "retry_backoff_ms": 2}
    with drumlin.connect(broker.address, **options) as client:
        yield client


def offsets(batch: Any) -> list[int]:
    assert batch is not None, "nothing came in time"
    found: list[int] = batch.column("offset").to_pylist()
    return found


def new_leader(broker: EpochBroker, log: Log, epoch_end: int) -> None:
    """The next fetch is told that there is a new leader, which knows less."""
    broker.epoch = 1
    log.epoch_end = epoch_end
    broker.script("fetch", failing(log.fetch, ErrorCode.fenced_leader_epoch), log.fetch)


def test_a_new_leader_that_knows_it_all(broker: EpochBroker, log: Log, client: Client) -> None:
    with client.consumer(assign=[PLACE]) as consumer:
        assert offsets(consumer.poll(WAIT_MS)) == list(range(10))
        new_leader(broker, log, 100)
        for start in range(10, 100, 10):
            assert offsets(consumer.poll(WAIT_MS)) == list(range(start, start + 10))
    assert len(broker.asked("offset_for_leader_epoch")) >= 1
    assert log.fetches[-1][1] == 1


def test_a_check_that_leaves_a_partition_out_is_made_again(
    broker: EpochBroker, log: Log, client: Client
) -> None:
    broker.script(
        "offset_for_leader_epoch",
        lambda shape, request: shape("OffsetForLeaderEpochResponse", throttle_time=ZERO, topics=()),
        log.offset_for_leader_epoch,
    )
    with client.consumer(assign=[PLACE]) as consumer:
        assert offsets(consumer.poll(WAIT_MS)) == list(range(10))
        new_leader(broker, log, 100)
        for start in range(10, 100, 10):
            assert offsets(consumer.poll(WAIT_MS)) == list(range(start, start + 10))


def test_a_check_that_tells_of_other_partitions(
    broker: EpochBroker, log: Log, client: Client
) -> None:
    def answer(shape: Shape, request: Any) -> Any:
        response = log.offset_for_leader_epoch(shape, request)
        (topic,) = response.topics
        other = shape(
            "EpochEndOffset",
            error_code=ErrorCode.fenced_leader_epoch,
            partition=100663296,
            leader_epoch=0,
            end_offset=3,
        )
        object.__setattr__(topic, "partitions", (other, *topic.partitions))
        return response

    broker.script("offset_for_leader_epoch", answer)
    with client.consumer(assign=[PLACE]) as consumer:
        assert offsets(consumer.poll(WAIT_MS)) == list(range(10))
        new_leader(broker, log, 100)
        for start in range(10, 100, 10):
            assert offsets(consumer.poll(WAIT_MS)) == list(range(start, start + 10))


def test_a_seek_counts_although_a_check_of_the_leader_fails(
    broker: EpochBroker, log: Log, client: Client
) -> None:
    is_asked, has_sought = threading.Event(), threading.Event()

    def refuse_late(shape: Shape, request: Any) -> Any:
        is_asked.set()
        has_sought.wait(WAIT_MS / 1000)
        response = log.offset_for_leader_epoch(shape, request)
        refused = response.topics[0].partitions[0]
        object.__setattr__(refused, "error_code", ErrorCode.not_leader_or_follower)
        return response

    broker.script("offset_for_leader_epoch", refuse_late, log.offset_for_leader_epoch)
    with client.consumer(assign=[PLACE]) as consumer:
        consumer.poll(WAIT_MS)
        new_leader(broker, log, 100)
        while not is_asked.is_set():
            consumer.poll(10)
        consumer.seek("t", 0, "earliest")
        has_sought.set()
        assert offsets(consumer.poll(WAIT_MS)) == list(range(10))


def test_a_log_that_lost_its_end_is_an_error(broker: EpochBroker, log: Log, client: Client) -> None:
    with client.consumer(assign=[PLACE]) as consumer:
        for _ in range(3):
            consumer.poll(WAIT_MS)
        new_leader(broker, log, 15)
        with pytest.raises(LogTruncated, match="unchanged up to 15") as caught:
            while True:  # what was fetched before comes first
                assert consumer.poll(WAIT_MS) is not None
        assert caught.value.offset >= 30
        consumer.seek("t", 0, caught.value.end_offset)
        assert offsets(consumer.poll(WAIT_MS)) == list(range(15, 20))


def test_a_log_that_lost_its_end_is_read_on_if_wanted(
    broker: EpochBroker, log: Log, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    resets: list[Any] = []
    with client.consumer(
        assign=[PLACE], out_of_range="earliest", on_reset=lambda *each: resets.append(each)
    ) as consumer:
        for _ in range(3):
            consumer.poll(WAIT_MS)
        new_leader(broker, log, 15)
        with caplog.at_level(logging.WARNING):
            while not resets:
                assert consumer.poll(WAIT_MS) is not None
        assert resets[0][0] == PLACE
        assert resets[0][2] == 15
        assert "is not in the log, continuing at 15" in caplog.text


def test_a_committed_epoch_is_checked_before_reading(
    broker: EpochBroker, log: Log, client: Client
) -> None:
    log.committed, log.epoch_end, broker.epoch = 50, 20, 3
    with (
        client.consumer(assign=[PLACE], group="g") as consumer,
        pytest.raises(LogTruncated, match="offset 50"),
    ):
        consumer.poll(WAIT_MS)
    assert log.fetches == []


def test_what_is_being_processed_does_not_count_after_a_passing_error(
    broker: EpochBroker, log: Log, client: Client
) -> None:
    """A leader says for a moment that it has not got the position."""
    log.batches = log.batches[:2]
    once = failing(log.fetch, ErrorCode.offset_out_of_range)
    broker.script("fetch", log.fetch, once, log.fetch)
    with pytest.raises(ZeroDivisionError):  # noqa: SIM117
        with client.consumer(assign=[PLACE], group="g") as consumer:
            assert offsets(consumer.poll(WAIT_MS)) == list(range(10))
            wait_until(lambda: len(log.fetches) >= 3, "the fetch after the refused one")
            1 / 0  # noqa: B018 - the work on the batch fails
    assert log.commits in ([], [0])


def test_errors_that_pass_are_waited_out(broker: EpochBroker, log: Log, client: Client) -> None:
    broker.script(
        "fetch",
        failing(log.fetch, ErrorCode.not_leader_or_follower),
        failing(log.fetch, ErrorCode.kafka_storage_error),
        lambda shape, request: CloseConnection(),
        failing(log.fetch, ErrorCode.unknown_leader_epoch),
        log.fetch,
    )
    broker.script(
        "offset_fetch",
        failing(log.offset_fetch, ErrorCode.coordinator_load_in_progress),
        failing(log.offset_fetch, ErrorCode.not_coordinator),
        log.offset_fetch,
    )
    with client.consumer(assign=[PLACE], group="g") as consumer:
        for start in range(0, 100, 10):
            assert offsets(consumer.poll(WAIT_MS)) == list(range(start, start + 10))
    assert len(broker.asked("find_coordinator")) == 2


def test_a_coordinator_that_has_left_the_cluster_is_asked_for_again(
    broker: EpochBroker, log: Log, client: Client
) -> None:
    def gone(shape: Shape, request: Any) -> Any:
        return log.find_coordinator(shape, request, node_id=9)

    broker.script("find_coordinator", gone, log.find_coordinator)
    with client.consumer(assign=[PLACE], group="g", commit_interval_ms=None) as consumer:
        assert offsets(consumer.poll(WAIT_MS)) == list(range(10))
        broker.script("find_coordinator", gone, gone, log.find_coordinator)
        broker.script(
            "offset_commit",
            failing(log.offset_commit, ErrorCode.not_coordinator),
            log.offset_commit,
        )
        consumer.commit()
    assert log.commits == [10]


def test_an_error_that_stays_is_raised(broker: EpochBroker, log: Log, client: Client) -> None:
    broker.script("fetch", failing(log.fetch, ErrorCode.topic_authorization_failed), log.fetch)
    with client.consumer(assign=[PLACE]) as consumer:
        with pytest.raises(RequestRefused) as caught:
            consumer.poll(WAIT_MS)
        assert caught.value.code is ErrorCode.topic_authorization_failed
        consumer.seek("t", 0, 20)
        assert offsets(consumer.poll(WAIT_MS))[0] == 20


def test_damage_is_raised_until_somebody_seeks(log: Log, client: Client) -> None:
    damaged = bytearray(log.batches[1])
    damaged[-1] ^= 1
    log.batches[1] = bytes(damaged)
    with client.consumer(assign=[PLACE]) as consumer:
        assert offsets(consumer.poll(WAIT_MS)) == list(range(10))
        for _ in range(2):
            with pytest.raises(CorruptData, match="topic 't' partition 0"):
                consumer.poll(WAIT_MS)
        consumer.seek("t", 0, 20)
        assert offsets(consumer.poll(WAIT_MS)) == list(range(20, 30))


def test_commits_are_tried_again(broker: EpochBroker, log: Log, client: Client) -> None:
    broker.script(
        "offset_commit",
        failing(log.offset_commit, ErrorCode.coordinator_load_in_progress),
        failing(log.offset_commit, ErrorCode.request_timed_out),  # replicas did not confirm
        lambda shape, request: CloseConnection(),
        log.offset_commit,
    )
    with client.consumer(assign=[PLACE], group="g", commit_interval_ms=None) as consumer:
        futures = [consumer.commit_async({PLACE: each}) for each in (1, 2, 3)]
        for each in futures:
            each.result(20)
        assert log.commits == [1, 2, 3]  # in order, though the first was repeated


def test_commits_that_fail_for_good(broker: EpochBroker, log: Log, client: Client) -> None:
    with client.consumer(assign=[PLACE], group="g", commit_interval_ms=None) as consumer:
        for code, error in (
            (ErrorCode.offset_metadata_too_large, RequestRefused),
            (ErrorCode.unknown_member_id, CommitFailed),
            (ErrorCode.illegal_generation, CommitFailed),
            (ErrorCode.fenced_instance_id, CommitFailed),
        ):
            broker.script("offset_commit", failing(log.offset_commit, code))
            with pytest.raises(error, match=code.name) as caught:
                consumer.commit({PLACE: 1})
            assert caught.value.code is code


def test_a_commit_without_an_answer_ends_in_time(
    broker: EpochBroker, log: Log, client: Client
) -> None:
    broker.script("offset_commit", lambda shape, request: CloseConnection())
    with (
        client.consumer(assign=[PLACE], group="g", commit_interval_ms=None) as consumer,
        pytest.raises(BrokerUnreachable),
    ):
        consumer.commit({PLACE: 1})


def test_a_broker_without_the_new_protocol(broker: EpochBroker, log: Log, client: Client) -> None:
    del broker.versions["consumer_group_heartbeat"]
    with (
        client.consumer("t", group="g", protocol="consumer") as consumer,
        pytest.raises(ClientError, match="does not offer consumer_group_heartbeat"),
    ):
        consumer.poll(WAIT_MS)


def test_at_most_once_gives_nothing_that_is_not_committed(
    broker: EpochBroker, log: Log, client: Client
) -> None:
    refusal = failing(log.offset_commit, ErrorCode.offset_metadata_too_large)
    broker.script("offset_commit", refusal, log.offset_commit)
    with client.consumer(assign=[PLACE], group="g", delivery="at_most_once") as consumer:
        with pytest.raises(RequestRefused):
            consumer.poll(WAIT_MS)
        assert offsets(consumer.poll(WAIT_MS)) == list(range(10))
        assert log.commits == [10]
