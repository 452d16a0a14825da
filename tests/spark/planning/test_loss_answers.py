"""Answers of brokers that are behind, or wrong, or tell of a loss: what the source makes of them.

Driver and tasks over a real socket, without Spark: a broker that follows a script gives answers
that a healthy one gives rarely, for as long as the test says.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from drumlin.records.plain.record import Record, encode_batch
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.options.ranges import PlannedRange
from drumlin.spark.planning.cluster import Cluster
from drumlin.spark.planning.data_loss import DataLoss, ReadFailed
from drumlin.spark.reading.stream import StreamReader
from drumlin.spark.reading.tasks import read_task
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO, schema_versions
from rig.brokers.scripted_broker import ScriptedBroker
from rig.data.messages import Shape
from rig.ports import free_ports

pytestmark = [
    pytest.mark.deep,
    pytest.mark.parametrize("fail", [True, False], ids=["fail", "go on"]),
]

Ends = dict[str, dict[str, int]]


class Scripted:
    """One broker with the topics `t` (two partitions) and `u`, and how it is wrong."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.ends: Ends = {"t": {"0": 100, "1": 50}, "u": {"0": 10}}
        self.starts: dict[tuple[str, int], int] = {}
        self.hidden_looks = 0  # for how many times t is not in the metadata
        self.lower_looks = 0  # for how many times t-0 ends at 40
        self.unknown_until = 0.0  # when fetches are no longer answered with "unknown topic"
        self.is_frozen = False
        self.stable_end = 100  # of t-0, for those who read what is committed
        broker.topics |= {"t": 2, "u": 1}
        broker.topic_ids |= {"t": uuid.uuid4(), "u": uuid.uuid4()}
        del broker.versions["describe_log_dirs"]  # how large the logs are is not told
        broker.script("metadata", self._metadata)
        broker.script("list_offsets", self._list_offsets)
        broker.script("fetch", self._fetch)

    def options(self, *, fail: bool, **more: str) -> SourceOptions:
        chosen = {
            "kafka.bootstrap.servers": self.broker.address,
            "subscribe": "t,u",
            "startingoffsets": "earliest",
            "failondataloss": str(fail).lower(),
            "fetchoffset.retryintervalms": "10",
            "kafka.request.timeout.ms": "1500",
        }
        return SourceOptions.parse(chosen | more)

    def reader(self, *, fail: bool, **more: str) -> StreamReader:
        options = self.options(fail=fail, **more)
        return StreamReader(options, Cluster(options))

    def make_anew(self, end: int) -> None:
        """Topic t, deleted and created again, with one partition."""
        self.broker.topics["t"] = 1
        self.broker.topic_ids["t"] = uuid.uuid4()
        self.ends["t"] = {"0": end}

    def delete(self) -> None:
        del self.broker.topics["t"], self.broker.topic_ids["t"]

    def _metadata(self, shape: Shape, request: Any) -> Any:
        names = {each.name for each in request.topics or ()}
        if self.hidden_looks and (request.topics is None or "t" in names):
            self.hidden_looks -= 1
            partitions = self.broker.topics.pop("t")
            try:
                return self.broker.metadata(shape, request)
            finally:
                self.broker.topics["t"] = partitions
        return self.broker.metadata(shape, request)

    def _list_offsets(self, shape: Shape, request: Any) -> Any:
        answers = []
        for topic in request.topics:
            places = [self._place(shape, request, topic.name, each) for each in topic.partitions]
            answer = shape("ListOffsetsTopicResponse", name=topic.name, partitions=tuple(places))
            answers.append(answer)
        return shape("ListOffsetsResponse", throttle_time=ZERO, topics=tuple(answers))

    def _place(self, shape: Shape, request: Any, topic: str, wanted: Any) -> Any:
        index = wanted.partition_index
        offset = self.ends[topic][str(index)]
        if wanted.timestamp == -2:
            offset = self.starts.get((topic, index), 0)
        elif request.isolation_level == 1 and (topic, index) == ("t", 0):
            offset = self.stable_end
        elif self.lower_looks and (topic, index) == ("t", 0):
            self.lower_looks -= 1
            offset = 40
        return shape(
            "ListOffsetsPartitionResponse",
            partition_index=index,
            error_code=ErrorCode.none,
            offset=offset,
        )

    def _fetch(self, shape: Shape, request: Any) -> Any:
        wanted = request.topics[0].partitions[0]
        topic, index = request.topics[0].topic, wanted.partition
        code, records = ErrorCode.none, b""
        start, end = self.starts.get((topic, index), 0), self.ends[topic][str(index)]
        if time.monotonic() < self.unknown_until:
            code = ErrorCode.unknown_topic_or_partition
        elif not start <= wanted.fetch_offset <= end:
            code = ErrorCode.offset_out_of_range
        elif wanted.fetch_offset < end and not self.is_frozen:
            offsets = range(wanted.fetch_offset, end)
            present = [Record(each, 0, None, b"%d" % each) for each in offsets]
            records = bytes(encode_batch(present, base_offset=offsets[0]))
        partition = shape(
            "PartitionData",
            partition_index=index,
            error_code=code,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=start,
            aborted_transactions=(),
            records=records,
        )
        answer = shape("FetchableTopicResponse", topic=topic, partitions=(partition,))
        return shape(
            "FetchResponse", throttle_time=ZERO, error_code=ErrorCode.none, responses=(answer,)
        )


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with ScriptedBroker() as broker:
        yield Scripted(broker)


def latest(reader: StreamReader, start: Ends) -> Ends:
    end: Ends = reader.latestOffset(start, ReadAllAvailable())
    return json.loads(json.dumps(end))


def planned(reader: StreamReader, start: Ends, end: Ends) -> list[tuple[str, int, int, int]]:
    ranges = [each for task in reader.partitions(start, end) for each in task.value]
    return [(x.topic, x.partition, x.start_offset, x.end_offset) for x in ranges]


START: Ends = {"t": {"0": 100, "1": 50}, "u": {"0": 5}}
FULL: Ends = {"t": {"0": 100, "1": 50}, "u": {"0": 10}}


def test_a_topic_that_is_left_out_once_is_asked_for_again(scripted: Scripted, fail: bool) -> None:
    reader = scripted.reader(fail=fail)
    for looks in (0, 1):
        scripted.hidden_looks = looks
        assert latest(reader, START) == FULL


@pytest.mark.parametrize("pattern", [False, True], ids=["by name", "by pattern"])
def test_a_topic_that_is_away_is_never_new(scripted: Scripted, fail: bool, pattern: bool) -> None:
    reader = scripted.reader(fail=fail)
    if pattern:
        options = {
            "kafka.bootstrap.servers": scripted.broker.address,
            "subscribepattern": "[tu]",
            "failondataloss": str(fail).lower(),
            "fetchoffset.retryintervalms": "10",
        }
        parsed = SourceOptions.parse(options)
        reader = StreamReader(parsed, Cluster(parsed))
    assert latest(reader, START) == FULL
    scripted.hidden_looks = 1_000
    if fail:
        for _ in range(2):  # and a restart finds it just so
            with pytest.raises(
                DataLoss, match=r"metadata lacks partitions: t-0 at offset 100, t-1 at"
            ):
                latest(reader, START)
        reader = scripted.reader(fail=fail)
    else:
        assert latest(reader, START) == FULL
        scripted.ends["u"]["0"] = 12
        assert latest(reader, FULL) == {**FULL, "u": {"0": 12}}
    scripted.hidden_looks = 0
    scripted.ends["t"]["0"] = 110
    end = latest(reader, FULL)
    assert end["t"] == {"0": 110, "1": 50}
    assert ("t", 0, 100, 110) in planned(reader, FULL, end)


def test_an_end_that_is_lower_once_is_asked_for_again(scripted: Scripted, fail: bool) -> None:
    scripted.lower_looks = 1
    assert latest(scripted.reader(fail=fail), START) == FULL


def test_a_position_never_goes_back_in_the_same_log(scripted: Scripted, fail: bool) -> None:
    reader = scripted.reader(fail=fail)
    assert latest(reader, START) == FULL
    scripted.lower_looks = 1_000
    if fail:
        with pytest.raises(DataLoss, match="t-0 ends at 40, the query is at 100"):
            latest(reader, START)
        reader = scripted.reader(fail=fail)
    else:
        assert latest(reader, START) == FULL
    scripted.lower_looks = 0
    scripted.ends["t"]["0"] = 110
    end = latest(reader, FULL)
    assert planned(reader, FULL, end) == [("t", 0, 100, 110)]


def test_an_open_transaction_is_no_loss(scripted: Scripted, fail: bool) -> None:
    """Of a query that read what was not committed before it was started with read_committed."""
    scripted.stable_end = 60
    reader = scripted.reader(fail=fail, **{"kafka.isolation.level": "read_committed"})
    assert latest(reader, START) == FULL
    scripted.stable_end = scripted.ends["t"]["0"] = 130
    end = latest(reader, FULL)
    assert planned(reader, FULL, end) == [("t", 0, 100, 130)]


@pytest.mark.parametrize("end", [40, 300], ids=["shorter", "longer"])
def test_a_topic_that_was_made_anew_is_read_from_its_start(
    scripted: Scripted, fail: bool, end: int
) -> None:
    reader = scripted.reader(fail=fail)
    assert latest(reader, START) == FULL
    scripted.make_anew(end)
    if fail:
        with pytest.raises(DataLoss, match=r"are gone: t-1"):
            latest(reader, FULL)
        return
    read: list[tuple[str, int, int, int]] = []
    position = FULL
    while (next_end := latest(reader, position)) != position:
        plan = planned(reader, position, next_end)
        # Who repeats the batch after a restart, and knows nothing, reads the same.
        assert planned(scripted.reader(fail=fail), position, next_end) == plan
        read += plan
        position = next_end
    assert position == {"t": {"0": end}, "u": {"0": 10}}
    assert [offset for each in read for offset in range(*each[2:])] == list(range(end))


def test_a_topic_that_was_made_anew_between_two_runs(scripted: Scripted, fail: bool) -> None:
    scripted.make_anew(40)
    scripted.ends["t"] = {"0": 40}
    reader = scripted.reader(fail=fail)
    start: Ends = {"t": {"0": 100}, "u": {"0": 10}}
    if fail:
        with pytest.raises(DataLoss, match="created again: t-0"):
            latest(reader, start)
    else:
        end = latest(reader, start)
        assert end == {"t": {"0": 40}, "u": {"0": 10}}
        assert planned(reader, start, end) == [("t", 0, 0, 40)]


def test_a_topic_that_is_proven_deleted_is_left_out(scripted: Scripted, fail: bool) -> None:
    reader = scripted.reader(fail=fail)
    assert latest(reader, START) == FULL
    scripted.delete()
    if fail:
        with pytest.raises(DataLoss, match=r"partitions are gone: t-0, t-1"):
            latest(reader, START)
    else:
        assert latest(reader, START) == {"u": {"0": 10}}


def test_new_partitions_without_their_first_records(scripted: Scripted, fail: bool) -> None:
    scripted.starts["t", 1] = 7
    start: Ends = {"t": {"0": 100}, "u": {"0": 10}}
    reader = scripted.reader(fail=fail)
    if fail:
        with pytest.raises(DataLoss, match=r"lost their first records: t-1"):
            latest(reader, start)
    else:
        end = latest(reader, start)
        assert planned(reader, start, end) == [("t", 1, 7, 50)]


def test_only_the_topics_that_are_read_are_asked_for(scripted: Scripted, fail: bool) -> None:
    reader = scripted.reader(fail=fail)
    scripted.hidden_looks = 1
    latest(reader, latest(reader, reader.initialOffset()))
    for request in scripted.broker.asked("metadata"):
        assert {each.name for each in request.topics} <= {"t", "u"}
    assert len(scripted.broker.asked("describe_log_dirs")) == 0


def test_how_dense_logs_are_is_asked_once_for_many_batches(scripted: Scripted, fail: bool) -> None:
    def sizes(shape: Shape, request: Any) -> Any:
        partition = shape(
            "DescribeLogDirsPartition",
            partition_index=0,
            partition_size=1 << 30,
            offset_lag=0,
            is_future_key=False,
        )
        topic = shape("DescribeLogDirsTopic", name="t", partitions=(partition,))
        result = shape(
            "DescribeLogDirsResult",
            error_code=ErrorCode.none,
            log_dir="/data",
            topics=(topic,),
            total_bytes=-1,
            usable_bytes=-1,
        )
        return shape(
            "DescribeLogDirsResponse",
            throttle_time=ZERO,
            error_code=ErrorCode.none,
            results=(result,),
        )

    scripted.broker.versions["describe_log_dirs"] = schema_versions("describe_log_dirs")
    scripted.broker.script("describe_log_dirs", sizes)
    scripted.ends["t"]["0"] = 1_000_000
    scripted.is_frozen = True  # fetches show nothing of it
    reader = scripted.reader(fail=fail)
    latest(reader, START)
    plans = [planned(reader, START, {**START, "t": {"0": 900_000, "1": 50}}) for _ in range(3)]
    assert len(plans[0]) > 1
    assert plans[1:] == plans[:1] * 2
    assert len(scripted.broker.asked("describe_log_dirs")) == 1


def test_a_question_about_a_batch_has_one_answer(scripted: Scripted, fail: bool) -> None:
    """A stream that is joined with itself asks twice, also in the first batch after a restart."""
    reader = scripted.reader(fail=fail, startingoffsets="latest")
    first = reader.initialOffset()
    assert latest(reader, first) == first
    scripted.ends["t"]["0"] = 130
    reader = scripted.reader(fail=fail, startingoffsets="latest")
    for _ in range(3):
        assert planned(reader, reader.initialOffset(), first) == []
    end = latest(reader, first)
    for _ in range(3):
        assert planned(reader, first, end) == [("t", 0, 100, 130)]


def test_a_first_batch_that_is_repeated_after_retention_was_at_work(
    scripted: Scripted, fail: bool
) -> None:
    end = latest(scripted.reader(fail=fail), {"t": {"0": 0, "1": 0}, "u": {"0": 0}})
    scripted.starts |= {("t", 0): 30, ("t", 1): 60}
    scripted.ends["t"] |= {"1": 70, "2": 5}
    scripted.broker.topics["t"] = 3  # a partition has come as well: it is for the next batch
    reader = scripted.reader(fail=fail)
    begin = reader.initialOffset()
    if fail:
        with pytest.raises(DataLoss, match="records of the first batch are gone: t-1"):
            planned(reader, begin, end)
    else:
        assert planned(reader, begin, end) == [("t", 0, 30, 100), ("u", 0, 0, 10)]
        assert latest(reader, end)["t"] == {"0": 100, "1": 70, "2": 5}


def test_available_now_ends_where_the_logs_ended_when_it_began(
    scripted: Scripted, fail: bool
) -> None:
    reader = scripted.reader(fail=fail)
    reader.prepareForTriggerAvailableNow()
    scripted.ends["u"]["0"] = 1_000
    assert latest(reader, START) == FULL


def task(scripted: Scripted, start: int, end: int, topic_id: UUID | None) -> PlannedRange:
    known = None if topic_id is None else str(topic_id)
    return PlannedRange("t", 0, start, end, known)


def offsets(options: SourceOptions, wanted: PlannedRange) -> list[int]:
    batches = read_task(options, [wanted])
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_task_waits_for_a_broker_that_does_not_know_the_topic_yet(
    scripted: Scripted, fail: bool
) -> None:
    scripted.unknown_until = time.monotonic() + 1.5  # longer than the client waits for a topic
    wanted = task(scripted, 90, 100, scripted.broker.topic_ids["t"])
    patient = scripted.options(fail=fail, **{"kafka.request.timeout.ms": "30000"})
    assert offsets(patient, wanted) == list(range(90, 100))


def test_a_topic_that_stays_unknown_fails_the_task(scripted: Scripted, fail: bool) -> None:
    scripted.unknown_until = math.inf
    wanted = task(scripted, 90, 100, scripted.broker.topic_ids["t"])
    with pytest.raises(ReadFailed, match="t-0 at offset 90 could not be read"):
        offsets(scripted.options(fail=fail), wanted)


def test_a_log_that_hangs_fails_the_task(scripted: Scripted, fail: bool) -> None:
    scripted.is_frozen = True
    with pytest.raises(ReadFailed, match=r"t-0 at offset 90 could not be read .*up to 100"):
        offsets(scripted.options(fail=fail), task(scripted, 90, 100, None))


def test_an_offset_beyond_the_end_fails_the_task(scripted: Scripted, fail: bool) -> None:
    with pytest.raises(ReadFailed, match=r"t-0 at offset 110 .*the log holds 0 to 100"):
        offsets(scripted.options(fail=fail), task(scripted, 110, 120, None))


def test_what_retention_took_is_passed_over(scripted: Scripted, fail: bool) -> None:
    scripted.starts["t", 0] = 95
    wanted = task(scripted, 90, 100, None)
    if fail:
        with pytest.raises(DataLoss, match="offset 90 is out of range"):
            offsets(scripted.options(fail=fail), wanted)
    else:
        assert offsets(scripted.options(fail=fail), wanted) == list(range(95, 100))


def test_a_deleted_topic_is_passed_over_once_its_id_is_gone(scripted: Scripted, fail: bool) -> None:
    wanted = task(scripted, 90, 100, scripted.broker.topic_ids["t"])
    scripted.unknown_until = math.inf
    scripted.delete()
    if fail:
        with pytest.raises(DataLoss, match="t-0 at offset 90: the topic was deleted"):
            offsets(scripted.options(fail=fail), wanted)
    else:
        assert offsets(scripted.options(fail=fail), wanted) == []


def test_a_batch_begun_before_a_restart_whose_topic_is_gone(
    scripted: Scripted, fail: bool, caplog: pytest.LogCaptureFixture
) -> None:
    scripted.delete()
    end: Ends = {"t": {"0": 120, "1": 50}, "u": {"0": 10}}
    reader = scripted.reader(fail=fail)
    with caplog.at_level(logging.WARNING):
        plan = planned(reader, FULL, end)
    # With failOnDataLoss=true it is left to the task, which fails and says where it stands.
    assert plan == ([("t", 0, 100, 120)] if fail else [])
    assert fail or "partitions of a started batch are gone: t-0" in caplog.text


def test_a_worker_that_starts_while_the_broker_is_away_waits(fail: bool) -> None:
    """A new process has no connection yet; no broker listens for a second and a half."""
    port = free_ports(1)[0]
    options = {
        "kafka.bootstrap.servers": f"127.0.0.1:{port}",
        "subscribe": "t",
        "failondataloss": str(fail).lower(),
        "kafka.client.id": f"fresh-{fail}",
    }
    batches = read_task(SourceOptions.parse(options), [PlannedRange("t", 0, 90, 100)])
    read: list[int] = []

    def work() -> None:
        for batch in batches:
            read.extend(batch.column("offset").to_pylist())

    worker = threading.Thread(target=work)
    worker.start()
    worker.join(1.5)
    assert worker.is_alive()
    with ScriptedBroker(port=port) as broker:
        Scripted(broker)
        worker.join(30)
    assert read == list(range(90, 100))
