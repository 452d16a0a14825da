"""Reads ranges of a log into Arrow. The loop fetches ahead, the caller's thread decodes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from drumlin.client import arguments
from drumlin.client.arguments import Decode
from drumlin.client.errors import CorruptData, OffsetOutOfRange, RecordsMissing
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.needs_arrow import needing_arrow
from drumlin.client.places import OffsetSpec, Place, check_partitions, is_time
from drumlin.client.read.fetch_memory import FetchMemory
from drumlin.client.read.log_bounds import LogBounds, bounds_of
from drumlin.client.read.offsets import list_offsets
from drumlin.client.read.range_stream import OffsetRange, RangeStream
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import Isolation
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.gaps import stretch_of
from drumlin.records.kernels import record_kernels
from drumlin.records.plain.bodies import Selection, select_bodies
from drumlin.records.plain.plain_columns import decode_plain
from drumlin.records.plain.record import Headers
from drumlin.records.text.line_form import LineForm
from drumlin.records.text.lines import Lines, lines_of
from drumlin.wire.by_hand.fetch_response import PartitionFetch
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    import pyarrow as pa

FETCH_BYTES: Final = 8 << 20
_ROWS_MAX: Final = 10_000  # of Python objects, which are large
_RANGES_AHEAD: Final = 2
_SMALL_RANGES_AHEAD: Final = 8  # if they take no more memory than the large ones


T = TypeVar("T")
#: Decodes a fetched piece of a range into rows.
Decoder = Callable[[PartitionFetch, OffsetRange], Iterator[T]]


class ReadRecord(NamedTuple):
    """A record as a Python object. `timestamp` is in milliseconds since 1970."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of all calls that read, described in `Client.read`.

    Raises:
        TypeError, ValueError: an option is invalid. Columns are checked by `schema_of`.
    """

    decode: Decode | None = None
    columns: Sequence[str] | None = None
    headers: bool = False
    isolation: Isolation = "read_uncommitted"
    max_bytes_per_batch: int = FETCH_BYTES
    without_gaps: bool = False

    def __post_init__(self) -> None:
        arguments.isolation_level(self.isolation)
        arguments.whole_number("max_bytes_per_batch", self.max_bytes_per_batch, 1, 2**31 - 1)
        arguments.decoding(self.decode)


async def plan(
    connections: BrokerConnections,
    topic: str,
    partitions: Sequence[int] | None,
    start: Place | Mapping[int, Place],
    end: Place | Mapping[int, Place],
    isolation: Isolation,
) -> list[OffsetRange]:
    """The ranges to read, up to the current end of the log; empty ones are left out.

    Raises:
        KafkaError: unknown topic or partition.
        ValueError: a start or end is for a partition that is not read.
        OffsetOutOfRange: a start offset is outside the log.
    """
    existing = await connections.partitions(topic)
    wanted = existing if partitions is None else list(partitions)
    for partition in wanted:
        if partition not in existing:
            where = f"topic {topic!r} partition {partition} does not exist"
            raise KafkaError(ErrorCode.unknown_topic_or_partition, where)
    for name, given in (("start", start), ("end", end)):
        if isinstance(given, Mapping):
            check_partitions(name, given, wanted)
    places = [TopicPartition(topic, each) for each in wanted]
    bounds, starts_by_time, stops_by_time = await asyncio.gather(
        bounds_of(connections, places, isolation),
        _look_up_times(connections, places, start, isolation),
        _look_up_times(connections, places, end, isolation),
    )
    ranges = []
    for place in places:
        log = bounds[place]
        first = _offset_of(start, place, log, starts_by_time)
        if log.clamp(first) != first:
            raise OffsetOutOfRange(*place, first, *log)
        stop = min(_offset_of(end, place, log, stops_by_time), log.end_offset)
        if first < stop:
            ranges.append(OffsetRange(*place, first, stop))
    return ranges


async def _look_up_times(
    connections: BrokerConnections,
    places: Sequence[TopicPartition],
    at: Place | Mapping[int, Place],
    isolation: Isolation,
) -> dict[TopicPartition, int]:
    """The offsets of those places that are times; -1 if all records are older."""
    specs = ((place, _spec_of(at, place)) for place in places)
    times: dict[TopicPartition, OffsetSpec] = {
        place: spec for place, spec in specs if is_time(spec)
    }
    if not times:
        return {}
    found = await list_offsets(connections, times, isolation)
    return {place: each.offset for place, each in found.items()}


def _spec_of(at: Place | Mapping[int, Place], place: TopicPartition) -> Place:
    return at[place[1]] if isinstance(at, Mapping) else at


def _offset_of(
    at: Place | Mapping[int, Place],
    place: TopicPartition,
    log: LogBounds,
    by_time: Mapping[TopicPartition, int],
) -> int:
    """The offset of a place; for a time it is always within the log."""
    spec = _spec_of(at, place)
    if isinstance(spec, int):
        return spec
    if place in by_time:
        return log.clamp(by_time[place]) if by_time[place] >= 0 else log.end_offset
    return log.start_offset if spec == "earliest" else log.end_offset


def read_ranges(
    thread: CoreLoop,
    connections: BrokerConnections,
    ranges: Sequence[OffsetRange],
    options: ReadOptions,
    *,
    leaders_only: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The records of `ranges`, one range after the other, each in offset order.

    `leaders_only`: read only from leaders, not from a nearer replica.
    """
    each_range = read_each_range(thread, connections, ranges, options, leaders_only=leaders_only)
    for _, batches in each_range:
        yield from batches


def read_records(
    thread: CoreLoop,
    connections: BrokerConnections,
    ranges: Sequence[OffsetRange],
    isolation: Isolation,
) -> Iterator[list[ReadRecord]]:
    """The records of `ranges` as Python objects: without Arrow, and slower."""
    options = ReadOptions(isolation=isolation)
    for _, records in _decode_each_range(thread, connections, ranges, options, _records):
        yield from records


def read_lines(
    thread: CoreLoop,
    connections: BrokerConnections,
    ranges: Sequence[OffsetRange],
    isolation: Isolation,
    form_of: Callable[[int], LineForm],
    count_max: int,
) -> Iterator[tuple[int, Lines]]:
    """The partitions and lines of up to `count_max` records of `ranges`.

    `form_of`: the form of lines for a partition. Only for a process that has kernels.
    """
    kernels = record_kernels.required()
    left = count_max

    def decode(piece: PartitionFetch, wanted: OffsetRange) -> Iterator[Lines]:
        aborted = piece.aborted_transactions
        selection = Selection(wanted.start_offset, wanted.end_offset, aborted)
        return lines_of(kernels, piece.records, selection, form_of(wanted.partition), left)

    options = ReadOptions(isolation=isolation)
    for wanted, pieces in _decode_each_range(thread, connections, ranges, options, decode):
        for lines in pieces:
            left -= lines.records
            yield wanted.partition, lines
            if not left:
                return


def read_each_range(
    thread: CoreLoop,
    connections: BrokerConnections,
    ranges: Sequence[OffsetRange],
    options: ReadOptions,
    *,
    leaders_only: bool = False,
) -> Iterator[tuple[OffsetRange, Iterator[pa.RecordBatch]]]:
    """Every range with its records, which must be read before the next range is begun.

    While one range is decoded, the next ones are already being fetched, so that many short ranges
    do not cost a round trip each. An error in a range is raised by its iterator, and does not
    affect the others.
    """
    from drumlin.client import tables

    def decode(piece: PartitionFetch, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        for batch in _batches(piece, wanted, options):
            yield tables.decoded(batch, options.decode, wanted.topic)

    return _decode_each_range(
        thread, connections, ranges, options, decode, leaders_only=leaders_only
    )


def _decode_each_range(
    thread: CoreLoop,
    connections: BrokerConnections,
    ranges: Sequence[OffsetRange],
    options: ReadOptions,
    decode: Decoder[T],
    *,
    leaders_only: bool = False,
) -> Iterator[tuple[OffsetRange, Iterator[T]]]:
    waiting = deque(ranges)
    open_streams: deque[tuple[OffsetRange, RangeStream]] = deque()
    fetch_bytes = options.max_bytes_per_batch

    def size_of(wanted: OffsetRange) -> int:
        return min(wanted.fetch_bytes or fetch_bytes, fetch_bytes)

    def is_next_due() -> bool:
        if not waiting or len(open_streams) < _RANGES_AHEAD:
            return bool(waiting)
        ahead = [size_of(wanted) for wanted, _ in open_streams] + [size_of(waiting[0])]
        return len(ahead) <= _SMALL_RANGES_AHEAD and sum(ahead) <= _RANGES_AHEAD * fetch_bytes

    memory = FetchMemory(fetch_bytes)

    rack = "" if leaders_only else connections.options.client_rack

    try:
        while waiting or open_streams:
            while is_next_due():
                wanted = waiting.popleft()
                stream = RangeStream(
                    connections, wanted, options.isolation, fetch_bytes, memory, rack
                )
                # An interrupt finds it there, and closes it.
                open_streams.append((wanted, stream))
                thread.call_soon(stream.begin)
            wanted, stream = open_streams[0]
            gaps_matter = options.without_gaps
            yield wanted, _read_stream(thread, connections, wanted, stream, decode, gaps_matter)
            _close(thread, open_streams.popleft()[1])
    finally:
        for _, stream in open_streams:
            _close(thread, stream)


def _read_stream(
    thread: CoreLoop,
    connections: BrokerConnections,
    wanted: OffsetRange,
    stream: RangeStream,
    decode: Decoder[T],
    without_gaps: bool,
) -> Iterator[T]:
    expected = wanted.start_offset if without_gaps else None
    while True:
        # A piece is released before waiting for the next, as both may be large.
        piece = thread.run(stream.next())
        if piece is None:
            return
        if expected is not None:
            expected = _check_gaps(piece, wanted, expected)
        try:
            yield from thread.iterate(decode(piece, wanted), len(piece.records))
        except CorruptRecord as error:
            where = f"topic {wanted.topic!r} partition {wanted.partition}"
            raise CorruptData(f"{where}: {error}") from error
        connections.memory.give_back(piece.records)
        del piece


def _check_gaps(piece: PartitionFetch, wanted: OffsetRange, expected: int) -> int:
    """Check a piece for gaps; returns its end offset.

    Raises:
        RecordsMissing: the log has no record and no marker at an offset of the range.
    """
    stretch = stretch_of(piece.records, expected, wanted.end_offset)
    if stretch.gap_offset is not None:
        raise RecordsMissing(wanted.topic, wanted.partition, stretch.gap_offset)
    return stretch.end_offset


def _close(thread: CoreLoop, stream: RangeStream) -> None:
    if thread.is_running:
        thread.call_soon(stream.close)


def schema_of(options: ReadOptions) -> pa.Schema:
    """The schema of the batches that these options yield.

    Raises:
        ValueError: a column does not exist.
        ModuleNotFoundError: Arrow is not installed.
    """
    with needing_arrow():
        from drumlin.records.columns.columns import record_schema

    return record_schema(options.columns, with_headers=options.headers)


def _records(piece: PartitionFetch, wanted: OffsetRange) -> Iterator[list[ReadRecord]]:
    selection = Selection(wanted.start_offset, wanted.end_offset, piece.aborted_transactions, True)
    bodies = select_bodies(piece.records, selection)
    for rows in decode_plain(bodies, selection, _ROWS_MAX, FETCH_BYTES):
        yield [
            ReadRecord(
                wanted.partition,
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                record.headers,
            )
            for record, _ in rows
        ]


def _batches(
    piece: PartitionFetch, wanted: OffsetRange, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    from drumlin.records.columns.columns import iterate_arrow

    return iterate_arrow(
        [piece.records],
        partition=wanted.partition,
        start_offset=wanted.start_offset,
        end_offset=wanted.end_offset,
        columns=schema_of(options).names,
        aborted=piece.aborted_transactions,
    )
