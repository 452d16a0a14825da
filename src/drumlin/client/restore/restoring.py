"""Restores a topic's state, or its records up to a point, into a new topic.

A restore is one transaction, which includes a marker of its completion (`restore_marker.py`).
Readers of committed records see all or nothing, whenever this process is killed: the next attempt
fences the open transaction, and writes everything again. `restore_target.py` checks the target.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pyarrow as pa

from drumlin.client.arguments import STATE_BYTES
from drumlin.client.errors import NotRestored, translated
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.read import reader
from drumlin.client.read.range_stream import OffsetRange
from drumlin.client.restore.restore_marker import RestoreRequest, marked, name_for
from drumlin.client.restore.restore_target import RestoreTarget
from drumlin.client.state import snapshots
from drumlin.client.state.exact_reading import ExactReader
from drumlin.client.state.exact_states import claim_states
from drumlin.client.state.snapshot_ranges import ranges_until
from drumlin.client.state.snapshots import SnapshotOptions, StateReader
from drumlin.client.transactions.errors import TransactionTimedOut
from drumlin.client.transactions.transaction import Transaction
from drumlin.client.write.deliveries import BATCH_BYTES
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import Isolation

T = TypeVar("T")

#: Begins a transaction with this transactional id and timeout.
Begin = Callable[[str, int | None], Transaction]
#: Called after each batch with the number of its records.
Progress = Callable[[int], object]

_ISOLATION: Final[Isolation] = "read_committed"


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """The outcome of a restore; with `was_there` it is that of an earlier restore."""

    source: str
    target: str
    end_offsets: dict[int, int]
    """The offset up to which each partition of the source was read, exclusive."""
    record_count: int = 0
    """0 with `was_there`."""
    was_there: bool = False


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The options with which a target is created and written."""

    configs: Mapping[str, str] = field(default_factory=dict)
    """Configuration of the new topic, which takes precedence over the source's."""
    compression: str = "none"
    timeout_ms: int | None = None
    """None: the brokers' maximum."""
    memory_bytes: int = STATE_BYTES
    allow_inexact: bool = False


class Restorer:
    """One restore, in a client's thread and the caller's."""

    def __init__(
        self,
        thread: CoreLoop,
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
        connections, request = self._connections, self._request
        found = RestoreTarget(self._thread, connections, request.source, target)
        found.make(self._options.configs)
        name = name_for(target)
        # This fences earlier attempts, and aborts their open transactions.
        with self._begin(name, self._options.timeout_ms) as transaction:
            marker = found.marker_of(request)
            if marker is not None:
                transaction.abort()
                if not marker.is_complete:
                    raise NotRestored(
                        f"Spark has begun to restore topic {target!r}, and has not completed it: "
                        "run that job again, or delete the topic"
                    )
                return RestoreReport(request.source, target, marker.end_offsets, was_there=True)
            found.check_empty()
            with _explaining_timeout(transaction):
                return self._write(transaction, found)

    def _ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with translated():
            return self._thread.run(coroutine)

    # -- copying -------------------------------------------------------------------------

    def _write(self, transaction: Transaction, target: RestoreTarget) -> RestoreReport:
        request = self._request
        ranges = ranges_until(
            self._thread, self._connections, request.source, None, request.at, _ISOLATION
        )
        exact_reader = self._ask(self._exact_reader(ranges))
        batch_bytes = target.batch_bytes(BATCH_BYTES)
        record_count = 0
        end_offsets = {}
        for wanted in ranges:
            end_offsets[wanted.partition] = wanted.end_offset
            read_count = 0
            for batch in self._rows(exact_reader, wanted):
                transaction.append(
                    batch,
                    target.name,
                    partition="partition",
                    batch_bytes=batch_bytes,
                    compression=self._options.compression,
                )
                read_count += batch.num_rows
                self._on_progress(batch.num_rows)
                if read_count == request.first:
                    end_offsets[wanted.partition] = batch["offset"][-1].as_py() + 1
            record_count += read_count
        target.check_is_there()
        offsets = marked(request, end_offsets, target.topic_id)
        transaction.send_offsets(offsets, name_for(target.name))
        transaction.commit()
        return RestoreReport(request.source, target.name, end_offsets, record_count)

    async def _exact_reader(self, ranges: Sequence[OffsetRange]) -> ExactReader:
        """A reader that fails unless the records give the exact state, even to restore records."""
        request, first = self._request, self._request.first
        ends = {}
        for each in ranges:
            end_offset = each.end_offset
            if first is not None:
                end_offset = min(end_offset, each.start_offset + first)
            ends[each.place] = end_offset
        claims = await claim_states(
            self._connections,
            ends,
            is_now=request.at is None and first is None,
            allow_inexact=self._options.allow_inexact,
        )
        return ExactReader(self._thread, self._connections, claims)

    def _rows(self, exact_reader: ExactReader, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """The records to write for one partition."""
        schema = snapshots.schema_of(None, headers=True)
        with translated():
            if self._request.is_of_records:
                options = reader.ReadOptions(columns=schema.names, isolation=_ISOLATION)
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
def _explaining_timeout(transaction: Transaction) -> Iterator[None]:
    """Add a remedy to the error of a restore that exceeds the transaction timeout."""
    try:
        yield
    except TransactionTimedOut as error:
        error.add_note(
            "a restore is one transaction, of which nothing is visible now. Its timeout is "
            f"{transaction.timeout_ms / 60_000:.0f} minutes here: raise the brokers' "
            "transaction.max.timeout.ms"
        )
        raise
