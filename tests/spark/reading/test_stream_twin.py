"""The stream's reader under a small Spark of our own, which dies at every possible moment.

What Spark does with a reader is little: it journals where a batch ends, reads the batch, commits
it, and after a death begins again from the journal with a new reader. Here that happens by chance
thousands of times, against logs in memory, where the real Spark takes seconds for each.
"""

from __future__ import annotations

import json
from typing import Any, Literal, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.spark.options.options import SourceOptions
from drumlin.spark.options.ranges import PlannedRange
from drumlin.spark.planning.cluster import Cluster
from drumlin.spark.reading.stream import StreamReader
from rig.depth import so_many
from spark.lying_cluster import LyingCluster, there

Death = Literal["before reading", "before committing"] | None
Record = tuple[int, int]  # partition, offset


class SmallSpark:
    """A streaming query: its journal, its commits, and what it has written batch by batch."""

    def __init__(self, logs: LyingCluster, options: SourceOptions) -> None:
        self.logs = logs
        self._options = options
        self.journal: list[str] = []
        self._commits = 0
        self.written: dict[int, list[Record]] = {}
        self._start()

    def trigger(self, death: Death = None) -> bool:
        """Run one batch if there is something to read; says if there was."""
        begin = self._begin_of(len(self.journal))
        limit = self._reader.getDefaultReadLimit()
        end = json.dumps(self._reader.latestOffset(json.loads(begin), limit))
        if self.journal and end == begin:
            return False
        self.journal.append(end)
        if death == "before reading":
            self._start()
        else:
            self._read(begin, end)
            if death == "before committing":
                self._start()
            else:
                self._commits += 1
        return True

    def _start(self) -> None:
        """A new process: all that is left is the journal and the commits."""
        self._reader = StreamReader(self._options, cast("Cluster", self.logs))
        if len(self.journal) > self._commits:
            self._read(self._begin_of(self._commits), self.journal[-1])
            self._commits += 1

    def _begin_of(self, batch: int) -> str:
        if batch:
            return self.journal[batch - 1]
        return json.dumps(self._reader.initialOffset())

    def _read(self, begin: str, end: str) -> None:
        tasks = self._reader.partitions(json.loads(begin), json.loads(end))
        records = [record for task in tasks for record in _records_of(task.value)]
        again = self.written.setdefault(self._commits, records)
        assert again == records, "a batch that is repeated must be the same"


def _records_of(ranges: tuple[PlannedRange, ...]) -> list[Record]:
    return [
        (wanted.partition, each)
        for wanted in ranges
        for each in range(wanted.start_offset, wanted.end_offset)
    ]


steps = st.one_of(
    st.tuples(st.just("grow"), st.integers(0, 5), st.integers(1, 20)),
    st.tuples(st.just("trigger"), st.sampled_from([None, "before reading", "before committing"])),
    st.tuples(st.just("add partition")),
)


@settings(
    max_examples=so_many(150, 500),
)
@given(
    start=st.sampled_from(["earliest", "latest"]),
    limit=st.sampled_from([None, ("maxoffsetspertrigger", "7"), ("maxbytespertrigger", "70")]),
    script=st.lists(steps, max_size=25),
)
def test_nothing_is_lost_and_nothing_comes_twice(
    start: str, limit: tuple[str, str] | None, script: list[tuple[Any, ...]]
) -> None:
    options = {"kafka.bootstrap.servers": "x:1", "subscribe": "t", "startingoffsets": start}
    if limit is not None:
        options |= dict([limit])
    logs = LyingCluster(has_ids=True)
    logs.grow(0, 3)
    spark = SmallSpark(logs, SourceOptions.parse(options))
    for action, *arguments in script:
        if action == "grow":
            logs.grow(*arguments)
        elif action == "add partition":
            logs.add_partition()
        else:
            spark.trigger(*arguments)
    while spark.trigger():
        pass
    written = [record for batch in spark.written.values() for record in batch]
    first = {} if start == "earliest" else json.loads(spark.journal[0])["t"]
    assert sorted(written) == [
        (partition, offset)
        for _, partition, offset in there(logs)
        if offset >= first.get(str(partition), 0)
    ]
