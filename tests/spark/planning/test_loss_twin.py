"""The stream's reader against clusters that give wrong answers and lose topics, by chance.

A small Spark of our own (as in test_stream_twin) drives the reader; the cluster leaves partitions
out, tells lower ends than it has told before, deletes topics and makes them again, with ids or
without. Beside it goes a model that knows which log every record is of. Whatever happens, no
record comes twice, and what is missing was reported.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.client.errors import UnknownTopic
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.planning.cluster import Cluster
from drumlin.spark.planning.data_loss import DataLoss, ReadFailed
from drumlin.spark.reading.stream import StreamReader
from rig.depth import so_many
from spark.lying_cluster import LyingCluster, Record, there


class SmallSpark:
    """A streaming query that is started again whenever it has failed."""

    def __init__(self, cluster: LyingCluster, options: SourceOptions) -> None:
        self.cluster = cluster
        self._options = options
        self.journal: list[str] = []
        self._commits = 0
        self.written: dict[int, list[Record]] = {}
        self.reader: StreamReader | None = None

    def restart(self) -> None:
        self.reader = None

    def trigger(self, *, dies: bool = False) -> bool | None:
        """Run one batch if there is something to read; None if the query failed."""
        try:
            return self._trigger(dies)
        except (DataLoss, ReadFailed, UnknownTopic):
            self.reader = None
            return None

    def _trigger(self, dies: bool) -> bool:
        if self.reader is None:
            self.reader = StreamReader(self._options, cast("Cluster", self.cluster))
            if len(self.journal) > self._commits:
                self._read()
        begin = self._begin_of(len(self.journal))
        limit = self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(json.loads(begin), limit))
        if self.journal and end == begin:
            return False
        self.journal.append(end)
        if dies:
            self.reader = None
        else:
            self._read()
        return True

    def _begin_of(self, batch: int) -> str:
        assert self.reader is not None
        return self.journal[batch - 1] if batch else json.dumps(self.reader.initialOffset())

    def _read(self) -> None:
        assert self.reader is not None
        begin, end = self._begin_of(self._commits), self.journal[self._commits]
        plans = [self.reader.partitions(json.loads(begin), json.loads(end)) for _ in range(2)]
        assert [each.value for each in plans[0]] == [each.value for each in plans[1]]
        fail = self._options.fail_on_data_loss
        records = [
            each
            for task in plans[0]
            for wanted in task.value
            for each in self.cluster.read(wanted, fail=fail)
        ]
        self.written[self._commits] = records
        self._commits += 1


@contextmanager
def reports() -> Iterator[list[str]]:
    """What the source warns of meanwhile."""
    said: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger = logging.getLogger("drumlin.spark.planning.data_loss")
    keeper = Keeper()
    logger.addHandler(keeper)
    logger.propagate = False
    try:
        yield said
    finally:
        logger.removeHandler(keeper)
        logger.propagate = True


def options(*, fail: bool, limit: str | None) -> SourceOptions:
    chosen = {
        "kafka.bootstrap.servers": "x:1",
        "subscribe": "t",
        "startingoffsets": "earliest",
        "failondataloss": str(fail).lower(),
        "fetchoffset.retryintervalms": "0",
    }
    return SourceOptions.parse(chosen | ({} if limit is None else {"maxoffsetspertrigger": limit}))


lies = st.one_of(
    st.tuples(st.just("hide"), st.integers(0, 2), st.integers(1, 8)),
    st.tuples(st.just("lie"), st.integers(0, 2), st.integers(1, 8), st.integers(1, 30)),
)
usual = st.one_of(
    st.tuples(st.just("grow"), st.integers(0, 5), st.integers(1, 20)),
    st.tuples(st.just("trigger")),
    st.tuples(st.just("die in a batch")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("add partition")),
)
ends_of_topics = st.one_of(
    st.tuples(st.just("delete")), st.tuples(st.just("make anew"), st.integers(0, 25))
)


def play(spark: SmallSpark, script: list[tuple[Any, ...]]) -> None:
    cluster = spark.cluster
    for action, *arguments in script:
        if action == "trigger":
            spark.trigger()
        elif action == "die in a batch":
            spark.trigger(dies=True)
        elif action == "restart":
            spark.restart()
        else:
            getattr(cluster, action.replace(" ", "_"))(*arguments)


def run_to_the_end(spark: SmallSpark) -> bool:
    """All that can be read, from a cluster that tells the truth; whether the query goes."""
    spark.cluster.heal()
    for _ in range(200):
        result = spark.trigger()
        if result is False:
            return True
    return result is not None


def written(spark: SmallSpark) -> list[Record]:
    return sorted(record for batch in spark.written.values() for record in batch)


@settings(
    max_examples=so_many(150, 400),
)
@given(
    fail=st.booleans(),
    has_ids=st.booleans(),
    limit=st.sampled_from([None, "7"]),
    script=st.lists(st.one_of(usual, lies), max_size=30),
)
def test_wrong_answers_lose_nothing_and_double_nothing(
    fail: bool, has_ids: bool, limit: str | None, script: list[tuple[Any, ...]]
) -> None:
    spark = SmallSpark(LyingCluster(has_ids=has_ids), options(fail=fail, limit=limit))
    with reports():
        play(spark, script)
        assert run_to_the_end(spark)
    assert written(spark) == there(spark.cluster)


@settings(
    max_examples=so_many(150, 400),
)
@given(
    fail=st.booleans(),
    has_ids=st.booleans(),
    limit=st.sampled_from([None, "7"]),
    script=st.lists(st.one_of(usual, lies, ends_of_topics), max_size=30),
)
def test_no_record_comes_twice_and_every_loss_is_reported(
    fail: bool, has_ids: bool, limit: str | None, script: list[tuple[Any, ...]]
) -> None:
    spark = SmallSpark(LyingCluster(has_ids=has_ids), options(fail=fail, limit=limit))
    with reports() as said:
        play(spark, script)
        goes = run_to_the_end(spark)
    records = written(spark)
    assert len(records) == len(set(records))
    if goes and not fail and not said and len(spark.cluster.incarnations) == 1:
        assert records == there(spark.cluster)


@settings(
    max_examples=so_many(150, 300),
)
@given(
    limit=st.sampled_from([None, "7"]),
    before=st.lists(st.one_of(usual, lies), max_size=10),
    deaths=st.lists(ends_of_topics, min_size=1, max_size=3),
    more=st.lists(st.tuples(st.just("grow"), st.integers(0, 5), st.integers(1, 20)), max_size=5),
)
def test_a_topic_made_anew_is_known_by_its_id_and_read_as_a_whole(
    limit: str | None,
    before: list[tuple[Any, ...]],
    deaths: list[tuple[Any, ...]],
    more: list[tuple[Any, ...]],
) -> None:
    spark = SmallSpark(LyingCluster(has_ids=True), options(fail=False, limit=limit))
    with reports():
        play(spark, before)
        assert run_to_the_end(spark)
        play(spark, [*deaths, ("make anew", 3), *more])
        assert run_to_the_end(spark)
    current = spark.cluster.topic
    assert current is not None
    assert [each for each in written(spark) if each[0] == current.number] == there(spark.cluster)
