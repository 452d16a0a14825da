"""Reads topics for `drumlin consume`, without a group's membership: up to a place, or following.

Owns the positions: the next offset of every partition, past records that a filter leaves out.
"""

from __future__ import annotations

import array
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from drumlin.cli.reach import group_offsets
from drumlin.cli.reach.cluster import Cluster
from drumlin.cli.terminal import output
from drumlin.cli.terminal.places import END, Place
from drumlin.client.needs_arrow import has_arrow
from drumlin.client.reading_calls import read_lines
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.options import Isolation
from drumlin.records.batch.varint import INT64_MAX

if TYPE_CHECKING:
    from drumlin.cli.records.view import FormOf
    from drumlin.cli.terminal.record_text import Records
    from drumlin.client.client import Client
    from drumlin.records.text.lines import Lines

Offsets = dict[int, int]
#: The indexes of the records to show; None: all.
Choose = Callable[[str, "Records"], list[int] | None]

_POLL_S: Final = 0.1
#: Records that take less time as Python objects than it takes to load Arrow.
_FEW: Final = 20_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is read of every record, and how many records at most."""

    fields: frozenset[str]
    needs_arrow: bool
    isolation: Isolation
    count: int | None
    choose: Choose
    form_of: FormOf | None = None  # reads records as lines, all of them

    def columns(self, expected: int) -> list[str] | None:
        """The columns to read; None: as objects, for so few records or without Arrow."""
        if not self.needs_arrow and (expected <= _FEW or not has_arrow()):
            return None
        from drumlin.client.read.reader import ReadOptions, schema_of

        known = schema_of(ReadOptions(headers=True)).names
        return [name for name in known if name in {*self.fields, "partition", "offset"}]


class Reading:
    """One run over topics; counts the records it yields."""

    def __init__(self, client: Client, positions: dict[str, Offsets], wanted: Wanted) -> None:
        self._client = client
        self.positions = positions  # the next offset to read, by topic and partition
        self._wanted = wanted
        self.records = 0
        self.expected = 0  # an estimate: some offsets have no records

    def batches(
        self, last: Place, follow: bool, check: Callable[[], None]
    ) -> Iterator[tuple[str, Records | Lines]]:
        """Batches of one partition each, up to `last`; following, until `check` raises."""
        while True:
            for topic in self.positions:
                yield from self._up_to(last, topic)
            if not follow or self._is_done:
                return
            check()
            time.sleep(_POLL_S)

    @property
    def _is_done(self) -> bool:
        return self.records == self._wanted.count

    def _up_to(self, last: Place, topic: str) -> Iterator[tuple[str, Records | Lines]]:
        positions = self.positions[topic]
        ends = last.in_partitions(self._client, topic, positions)
        if last == END:
            _check_starts(topic, positions, ends)
        starts = {each: at for each, at in positions.items() if at < ends[each]}
        if not starts or self._is_done:
            return
        ends = {each: ends[each] for each in starts}
        self.expected += sum(ends[each] - starts[each] for each in starts)
        read = self._read if self._wanted.form_of is None else self._read_lines
        for batch in read(topic, starts, ends):
            yield topic, batch
            if self._is_done:
                return
        # Offsets without records (compacted away, or control records) count as read, too.
        positions |= ends

    def _chosen(self, topic: str, batch: Records) -> Records:
        """The records to show; the position moves past the last one that was looked at."""
        left = None if self._wanted.count is None else self._wanted.count - self.records
        indexes = self._wanted.choose(topic, batch)
        if indexes is None:
            batch = batch if left is None else _first(batch, left)
            chosen, seen = batch, batch
        else:
            is_cut = left is not None and len(indexes) >= left
            indexes = indexes[:left]
            seen = _first(batch, indexes[-1] + 1) if is_cut else batch
            chosen = _at(batch, indexes)
        partition, offset = last_place(seen)
        self.positions[topic][partition] = offset + 1
        self.records += len(chosen)
        return chosen

    def _read_lines(self, topic: str, starts: Offsets, ends: Offsets) -> Iterator[Lines]:
        wanted = self._wanted
        assert wanted.form_of is not None
        form_of = partial(wanted.form_of, topic)
        left = INT64_MAX if wanted.count is None else wanted.count - self.records
        found = read_lines(self._client, topic, starts, ends, wanted.isolation, form_of, left)
        for partition, lines in found:
            self.positions[topic][partition] = lines.last_offset + 1
            self.records += lines.records
            yield lines

    def _read(self, topic: str, starts: Offsets, ends: Offsets) -> Iterator[Records]:
        isolation = self._wanted.isolation
        columns = self._wanted.columns(sum(ends.values()) - sum(starts.values()))
        batches: Iterator[Records]
        if columns is None:
            batches = self._client.read_records(
                topic, list(starts), start=starts, end=ends, isolation=isolation
            )
        else:
            batches = self._client.read_batches(
                topic, list(starts), start=starts, end=ends, columns=columns, isolation=isolation
            )
        for batch in batches:
            if len(batch):
                chosen = self._chosen(topic, batch)
                if len(chosen) or self._is_done:
                    yield chosen


def _check_starts(topic: str, positions: Offsets, ends: Offsets) -> None:
    for partition, offset in positions.items():
        if offset > ends[partition]:
            where = f"{topic}-{partition} ends at offset {ends[partition]}"
            raise output.Failure(f"{where}, there is no offset {offset}")


def _first(batch: Records, count: int) -> Records:
    return batch[:count] if isinstance(batch, list) else batch.slice(0, count)


def _at(batch: Records, indexes: list[int]) -> Records:
    if isinstance(batch, list):
        return [batch[each] for each in indexes]
    import pyarrow as pa

    # From a buffer: `pa.array` would import pandas if it is installed.
    data = pa.py_buffer(array.array("q", indexes))
    return batch.take(pa.Array.from_buffers(pa.int64(), len(indexes), [None, data]))


def last_place(batch: Records) -> tuple[int, int]:
    """Partition and offset of the last record."""
    if isinstance(batch, list):
        return batch[-1].partition, batch[-1].offset
    # Field by field: to convert a timestamp, Arrow would import pandas.
    partition, offset = (batch[name][-1].as_py() for name in ("partition", "offset"))
    return partition, offset


class Group:
    """A group whose offsets are read and committed without joining it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    def committed(self) -> dict[TopicPartition, int]:
        return group_offsets.committed(self._cluster, self._name)

    def commit(self, topic: str, offsets: Offsets) -> None:
        positions = {TopicPartition(topic, each): offset for each, offset in offsets.items()}
        group_offsets.commit(self._cluster, self._name, positions)
