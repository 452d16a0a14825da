"""Restoring: a state of a topic, or its records up to a point, into a new topic.

All of it is one transaction, with a marker of completion in it (`restore_marker.py`). Whoever
reads committed records sees everything or nothing, whenever this process is killed: the next
attempt fences what was open, and writes everything anew. A topic with other records in it is
never written to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pyarrow as pa

from drumlin.client import admin, group_admin, reader, snapshots
from drumlin.client.admin import TopicDescription
from drumlin.client.appender import BATCH_BYTES
from drumlin.client.errors import NotRestored, TopicExists, translated
from drumlin.client.exact_reading import ExactReader
from drumlin.client.exact_states import claim_states
from drumlin.client.loop_thread import LoopThread
from drumlin.client.offsets import offsets_of_topic
from drumlin.client.range_stream import OffsetRange
from drumlin.client.restore_marker import RestoreRequest, marked, marker_in, name_for
from drumlin.client.snapshot_ranges import ranges_until
from drumlin.client.snapshots import SnapshotOptions, StateReader
from drumlin.client.transactions.errors import TransactionTimedOut
from drumlin.client.transactions.transaction import Transaction
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import Isolation

T = TypeVar("T")

#: Begins a transaction of this id, with this time-out.
Begin = Callable[[str, int | None], Transaction]
#: Called with the number of records that were written, of one batch after the other.
Progress = Callable[[int], object]

_ISOLATION: Final[Isolation] = "read_committed"
_TIMESTAMP_TYPE: Final = "message.timestamp.type"
_CREATE_TIME: Final = "CreateTime"
#: Set by those who move replicas: they name brokers and partitions of the source.
_NOT_TAKEN_OVER: Final = frozenset(
    {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore has done, or has found done by an earlier one (`was_there`)."""

    source: str
    target: str
    end_offsets: dict[int, int]
    """Up to which offset each partition of the source was read, not including it."""
    record_count: int = 0
    """0 where it was there."""
    was_there: bool = False


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """How a target is made and written."""

    configs: Mapping[str, str] = field(default_factory=dict)
    """Of the new topic, before those of the source."""
    compression: str = "none"
    timeout_ms: int | None = None
    """None: as long as brokers allow."""
    memory_bytes: int = snapshots.MEMORY_BYTES
    allow_inexact: bool = False


class Restorer:
    """One restore, in a client's thread and the caller's."""

    def __init__(
        self,
        thread: LoopThread,
        connections: BrokerConnections,
        begin: Begin,
        request: RestoreRequest,
        options: RestoreOptions,
        on_progress: Progress | None = None,
    ) -> None:
        self._thread = thread
        self._connections = connections
        self._begin = begin
        self._request = request
        self._options = options
        self._on_progress = on_progress or (lambda _: None)

    def run(self, target: str) -> RestoreReport:
        """See `Client.restore`."""
        source = self._request.source
        if source == target:
            raise NotRestored(f"topic {target!r} cannot be restored into itself")
        described = self._ask(admin.describe_topics(self._connections, [source]))[source]
        topic = self._described(target) or self._create(target, described)
        if len(topic.partitions) != len(described.partitions):
            raise NotRestored(
                f"topic {target!r} has {len(topic.partitions)} partitions, "
                f"{source!r} has {len(described.partitions)}"
            )
        name = name_for(target)
        # From here on no earlier attempt can write, and what one has left open is aborted.
        with self._begin(name, self._options.timeout_ms) as transaction:
            committed = self._ask(
                group_admin.fetch_committed(self._connections, name, require_stable=True)
            )
            marker = marker_in(committed, topic.topic_id)
            if marker is not None:
                transaction.abort()
                if not marker.is_of(self._request):
                    raise NotRestored(f"topic {target!r} was restored already, from the {marker}")
                return RestoreReport(source, target, marker.end_offsets, was_there=True)
            self._check_empty(target)
            with _telling_time(transaction):
                return self._write(transaction, topic)

    def _ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with translated():
            return self._thread.run(coroutine)

    # -- the target ----------------------------------------------------------------------

    def _described(self, target: str) -> TopicDescription | None:
        return self._ask(admin.look_up_topics(self._connections, [target])).found.get(target)

    def _create(self, target: str, source: TopicDescription) -> TopicDescription:
        """A topic like the source. Records keep their timestamps, whatever the source does."""
        configs = self._ask(admin.topic_configs(self._connections, source.name))
        taken_over = {
            key: entry.value
            for key, entry in configs.items()
            if not entry.is_default and entry.value is not None and key not in _NOT_TAKEN_OVER
        }
        if _TIMESTAMP_TYPE in configs and configs[_TIMESTAMP_TYPE].value != _CREATE_TIME:
            taken_over[_TIMESTAMP_TYPE] = _CREATE_TIME
        wanted = admin.NewTopic(
            target,
            len(source.partitions),
            len(source.partitions[0].replicas),
            taken_over | dict(self._options.configs),
        )
        with contextlib.suppress(TopicExists):  # another restore was faster: it will be fenced
            self._ask(admin.create_topic(self._connections, wanted))
        return self._ask(admin.describe_topics(self._connections, [target]))[target]

    def _check_empty(self, target: str) -> None:
        connections = self._connections
        ends = self._ask(offsets_of_topic(connections, target, "latest", "read_uncommitted"))
        stable = self._ask(offsets_of_topic(connections, target, "latest", _ISOLATION))
        if any(stable[each] < ends[each] for each in ends):
            raise NotRestored(f"another transaction is open in topic {target!r}")
        ranges = self._ask(ranges_until(connections, target, None, None, _ISOLATION))
        options: reader.ReadOptions = {"columns": ["offset"], "isolation": _ISOLATION}
        with translated():
            batches = reader.read_ranges(self._thread, connections, ranges, options)
            if any(batch.num_rows for batch in batches):
                raise NotRestored(f"topic {target!r} has records that no restore has written")

    # -- from one to the other -----------------------------------------------------------

    def _write(self, transaction: Transaction, topic: TopicDescription) -> RestoreReport:
        request, target = self._request, topic.name
        ranges = self._ask(
            ranges_until(self._connections, request.source, None, request.at, _ISOLATION)
        )
        exact_reader = self._ask(self._exact_reader(ranges))
        configs = self._ask(admin.topic_configs(self._connections, target))
        limit = configs["max.message.bytes"].value
        batch_bytes = min(BATCH_BYTES, int(limit or BATCH_BYTES))
        record_count = 0
        end_offsets = {}
        for wanted in ranges:
            end_offsets[wanted.partition] = wanted.end_offset
            read_count = 0
            for batch in self._rows(exact_reader, wanted):
                transaction.append(
                    batch,
                    target,
                    partition="partition",
                    batch_bytes=batch_bytes,
                    compression=self._options.compression,
                )
                read_count += batch.num_rows
                self._on_progress(batch.num_rows)
                if read_count == request.first:
                    end_offsets[wanted.partition] = batch["offset"][-1].as_py() + 1
            record_count += read_count
        offsets = marked(request, end_offsets, topic.topic_id)
        transaction.send_offsets(offsets, name_for(target))
        transaction.commit()
        return RestoreReport(request.source, target, end_offsets, record_count)

    async def _exact_reader(self, ranges: Sequence[OffsetRange]) -> ExactReader:
        """Records count as the state that they lead to: that must be exact."""
        request, first = self._request, self._request.first
        ends = {}
        for each in ranges:
            end_offset = each.end_offset
            if first is not None:
                end_offset = min(end_offset, each.start_offset + first)
            ends[each.topic, each.partition] = end_offset
        claims = await claim_states(
            self._connections,
            ends,
            is_now=request.at is None and first is None,
            allow_inexact=self._options.allow_inexact,
        )
        return ExactReader(self._thread, self._connections, claims)

    def _rows(self, exact_reader: ExactReader, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """The records to write, of one partition."""
        schema = snapshots.schema_of(None, headers=True)
        with translated():
            if self._request.is_of_records:
                options: reader.ReadOptions = {"columns": schema.names, "isolation": _ISOLATION}
                yield from self._first(exact_reader.read(wanted, options))
                exact_reader.confirm(wanted)
                return
            how = SnapshotOptions(schema, _ISOLATION, self._options.memory_bytes)
            yield from StateReader(exact_reader, how).read(wanted)

    def _first(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        left = self._request.first
        for batch in batches:
            if left == 0:
                return
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            yield batch


@contextlib.contextmanager
def _telling_time(transaction: Transaction) -> Iterator[None]:
    """Say what to do about a restore that takes longer than a transaction may."""
    try:
        yield
    except TransactionTimedOut as error:
        error.add_note(
            "a restore is one transaction, nothing of it is visible, and it may take "
            f"{transaction.timeout_ms / 60_000:.0f} minutes here: raise the brokers' "
            "transaction.max.timeout.ms"
        )
        raise
