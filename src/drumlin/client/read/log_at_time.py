"""The end of a log at a time in the past: the offset of the first later record.

Brokers return the first record *or marker* with at least a given timestamp, and a marker has the
time at which its transaction ended, whatever the times of its records. Only records count
here: the log is read from the broker's offset up to the first such record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.places import Place, first_ms, is_time
from drumlin.client.read import reader
from drumlin.client.read.offsets import look_up
from drumlin.client.read.range_stream import OffsetRange
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import Isolation

if TYPE_CHECKING:
    import pyarrow as pa

#: The size of the first fetch at the broker's offset, where there usually is a record.
_FIRST_FETCH_BYTES: Final = 64 << 10


def ends_at(
    thread: CoreLoop,
    connections: BrokerConnections,
    end_offsets: Mapping[TopicPartition, int],
    at_ms: int,
    isolation: Isolation,
) -> dict[TopicPartition, int]:
    """The offset of the first record later than `at_ms`; the end offset if there is none.

    With read_committed, records of aborted transactions do not count. `end_offsets` are the current
    ones.
    """
    times = dict.fromkeys(end_offsets, at_ms + 1)
    found = thread.run(look_up(connections, times, isolation))
    unseen = [
        OffsetRange(*place, each.offset, end_offsets[place], _FIRST_FETCH_BYTES)
        for place, each in found.items()
        if 0 <= each.offset < end_offsets[place]
    ]
    options = reader.ReadOptions(columns=["offset", "timestamp"], isolation=isolation)
    ends = dict(end_offsets)
    for wanted, batches in reader.read_each_range(
        thread, connections, unseen, options, leaders_only=True
    ):
        younger = _first_younger(batches, at_ms)
        if younger is not None:
            ends[wanted.place] = younger
    return ends


def without_times(end: Place | Mapping[int, Place]) -> Place | Mapping[int, Place]:
    """`end` with "latest" in place of times. Later, `cut_at_times` applies the times."""
    if isinstance(end, Mapping):
        return {partition: _without_time(each) for partition, each in end.items()}
    return _without_time(end)


def _without_time(end: Place) -> Place:
    return "latest" if is_time(end) else end


def cut_at_times(
    thread: CoreLoop,
    connections: BrokerConnections,
    ranges: Sequence[OffsetRange],
    end: Place | Mapping[int, Place],
    isolation: Isolation,
) -> list[OffsetRange]:
    """Cut ranges that end at a time: at the first record not before it. Omit empty ranges."""
    ends = {each.place: each.end_offset for each in ranges}
    by_time: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for place, offset in ends.items():
        spec = end[place[1]] if isinstance(end, Mapping) else end
        if is_time(spec):
            by_time[first_ms(spec)][place] = offset
    for time_ms, of_now in by_time.items():
        ends |= ends_at(thread, connections, of_now, time_ms - 1, isolation)
    cut = [each._replace(end_offset=ends[each.place]) for each in ranges]
    return [each for each in cut if each.start_offset < each.end_offset]


def _first_younger(batches: Iterable[pa.RecordBatch], at_ms: int) -> int | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        is_younger = pc.greater(batch.column("timestamp").cast(pa.int64()), at_ms)
        index = pc.index(is_younger, pa.scalar(True)).as_py()
        if index >= 0:
            found: int = batch.column("offset")[index].as_py()
            return found
    return None
