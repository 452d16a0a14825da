"""The state of a topic: the last record of every key, read from the log partition by partition.

A partition is read as often as its state takes the memory that it may have: each pass keeps the
keys of one share of the hash space, and gives them out before the next pass begins. Only leaders
are read: what a follower's cleaner has thrown out, nobody asks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from drumlin.client import reader
from drumlin.client.loop_thread import LoopThread
from drumlin.client.range_stream import OffsetRange
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import Isolation
from drumlin.records.columns import RECORD_SCHEMA_WITH_HEADERS
from drumlin.records.key_shares import SEED_SIZE, key_shares
from drumlin.records.latest_rows import LatestRows

#: The columns of a snapshot; `headers` if they are asked for.
COLUMNS: Final = ("key", "value", "headers", "partition", "offset", "timestamp")
MEMORY_BYTES: Final = 1 << 30

#: While a state is divided, half of it is there twice.
_MEMORY_PART: Final = 2 / 3
_SHARES_MAX: Final = 1 << 20


def schema_of(columns: Sequence[str] | None, *, headers: bool) -> pa.Schema:
    """The schema of these columns; by default of all, with or without headers.

    Raises:
        ValueError: a column that does not exist.
    """
    if columns is None:
        columns = [name for name in COLUMNS if headers or name != "headers"]
    unknown = sorted(set(columns) - set(COLUMNS))
    if unknown:
        raise ValueError(f"no such columns: {unknown}; there are {list(COLUMNS)}")
    return pa.schema([RECORD_SCHEMA_WITH_HEADERS.field(each) for each in columns])


class StateCheck(Protocol):
    """Whether a partition's log still tells the state that is read from it."""

    def before(self, wanted: OffsetRange) -> None:
        """Called before a partition is read. Raises where the log has lost that state already."""

    def after(self, wanted: OffsetRange) -> None:
        """Called when it was read, before any row is given out. Raises where it may be wrong."""


class StateReader:
    """Reads the state of partitions, in a client's thread and the caller's."""

    def __init__(
        self,
        thread: LoopThread,
        connections: BrokerConnections,
        schema: pa.Schema,
        isolation: Isolation,
        *,
        memory_bytes: int | None = None,
        check: StateCheck | None = None,
    ) -> None:
        """`memory_bytes`: what the state of one partition may take; None: all that it needs."""
        self._thread = thread
        self._connections = connections
        self._schema = schema
        self._isolation: Isolation = isolation
        self._memory_bytes = memory_bytes
        self._check = check
        self._seed = os.urandom(SEED_SIZE)

    def read(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """The last row of every key, tombstones applied, in columns of the schema.

        In the order of offsets, if the state takes no more memory than it may.
        """
        if self._check is not None:
            self._check.before(wanted)
        waiting = [_Share(0, 1)]
        while waiting:
            latest = self._pass(wanted, waiting)
            if self._check is not None:
                self._check.after(wanted)
            for batch in latest.rows():
                yield self._shown(batch, wanted.partition)

    def _pass(self, wanted: OffsetRange, waiting: list[_Share]) -> LatestRows:
        """The state of one of the shares that wait. Where it is too large, others will wait."""
        share = waiting.pop()
        latest = LatestRows()
        for batch in self._records(wanted):
            latest.add(share.of(batch, self._seed))
            while self._is_too_large(latest, share):
                share, other = share.halves()
                waiting.append(other)
                whole, latest = latest, LatestRows()
                for rows in whole.rows(with_tombstones=True):
                    latest.add(share.of(rows, self._seed))
                del whole
        return latest

    def _is_too_large(self, latest: LatestRows, share: _Share) -> bool:
        return (
            self._memory_bytes is not None
            and latest.nbytes > _MEMORY_PART * self._memory_bytes
            and latest.key_count > 1
            and share.count < _SHARES_MAX
        )

    def _records(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """The records of a range: what the rows need, and what tells which is the last."""
        names = {*self._schema.names, "key", "value", "offset"} - {"partition"}
        options: reader.ReadOptions = {"columns": sorted(names), "isolation": self._isolation}
        batches = reader.read_ranges(
            self._thread, self._connections, [wanted], options, leaders_only=True
        )
        for batch in batches:
            if "value" not in self._schema.names:
                # Only tombstones need to be known.
                batch = batch.append_column("has_value", pc.is_valid(batch.column("value")))
                batch = batch.drop_columns(["value"])
            yield batch

    def _shown(self, rows: pa.RecordBatch, partition: int) -> pa.RecordBatch:
        if "partition" in self._schema.names:
            numbers = pa.repeat(pa.scalar(partition, pa.int32()), rows.num_rows)
            rows = rows.append_column("partition", numbers)
        arrays = [rows.column(name) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


@dataclass(frozen=True, slots=True)
class _Share:
    """One of `count` equal parts of the hash space."""

    number: int
    count: int

    def halves(self) -> tuple[_Share, _Share]:
        first = 2 * self.number
        return _Share(first, 2 * self.count), _Share(first + 1, 2 * self.count)

    def of(self, batch: pa.RecordBatch, seed: bytes) -> pa.RecordBatch:
        """The rows whose keys are in this share."""
        if self.count == 1:
            return batch
        shares = key_shares(batch.column("key"), None, seed=seed, count=self.count)
        return batch.filter(pa.array(shares == self.number))
