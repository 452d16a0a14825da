"""How far a log reached at a time: up to its first record that is younger.

Brokers look for the first record *or marker* that is not older than a time, and a marker has the
time at which its transaction ended, whatever its records say. Here records alone count: the log is
read on from what a broker has found, until there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from drumlin.client import reader
from drumlin.client.loop_thread import LoopThread
from drumlin.client.offsets import TopicPartition, list_offsets
from drumlin.client.range_stream import OffsetRange
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import Isolation

#: Of the first look at what a broker has found: mostly that is a record.
_FIRST_FETCH_BYTES: Final = 64 << 10


def ends_at(
    thread: LoopThread,
    connections: BrokerConnections,
    end_offsets: Mapping[TopicPartition, int],
    at_ms: int,
    isolation: Isolation,
) -> dict[TopicPartition, int]:
    """The offset of the first record that is younger than `at_ms`; the end where there is none.

    Records of aborted transactions are none for a reader of committed ones. `end_offsets` are those
    of now.
    """
    times = dict.fromkeys(end_offsets, at_ms + 1)
    found = thread.run(list_offsets(connections, times, isolation))
    unseen = [
        OffsetRange(*place, each.offset, end_offsets[place], _FIRST_FETCH_BYTES)
        for place, each in found.items()
        if 0 <= each.offset < end_offsets[place]
    ]
    options: reader.ReadOptions = {"columns": ["offset", "timestamp"], "isolation": isolation}
    ends = dict(end_offsets)
    for wanted, batches in reader.read_each_range(
        thread, connections, unseen, options, leaders_only=True
    ):
        younger = _first_younger(batches, at_ms)
        if younger is not None:
            ends[wanted.topic, wanted.partition] = younger
    return ends


def _first_younger(batches: Iterable[pa.RecordBatch], at_ms: int) -> int | None:
    for batch in batches:
        is_younger = pc.greater(batch.column("timestamp").cast(pa.int64()), at_ms)
        index = pc.index(is_younger, pa.scalar(True)).as_py()
        if index >= 0:
            found: int = batch.column("offset")[index].as_py()
            return found
    return None
