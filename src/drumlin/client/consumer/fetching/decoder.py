"""Decodes a fetched piece into Arrow batches, in the user's thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from drumlin.client.consumer.fetching.fetch_buffer import Piece
from drumlin.client.consumer.options import ConsumerOptions
from drumlin.client.errors import CorruptData
from drumlin.client.read.reader import schema_of
from drumlin.client.tables import decoded
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.columns.columns import iterate_arrow


class Decoded(NamedTuple):
    """A batch and its end offset. `batch` is None if the rest of the piece has no records."""

    batch: pa.RecordBatch | None
    end_offset: int
    is_last: bool


def decode(piece: Piece, position: int, options: ConsumerOptions) -> Iterator[Decoded]:
    """The records of `piece` from `position`.

    Raises:
        CorruptData: a batch is damaged.
        Undecodable: a key or value does not have the format in `decode`.
    """
    topic, partition = piece.place
    schema = schema_of(options.read_options).with_metadata({"topic": topic})
    batches = iterate_arrow(
        [piece.records],
        partition=partition,
        start_offset=position,
        columns=list(dict.fromkeys([*schema.names, "offset"])),
        aborted=piece.aborted,
    )
    waiting: pa.RecordBatch | None = None
    try:
        for batch in _sliced(batches, options.max_records):
            if waiting is not None:
                selected = _selected(waiting, schema, options)
                yield Decoded(selected, _end_offset(waiting), is_last=False)
            waiting = batch
    except CorruptRecord as error:
        raise CorruptData(f"topic {topic!r} partition {partition}: {error}") from error
    last = None if waiting is None else _selected(waiting, schema, options)
    yield Decoded(last, piece.end_offset, is_last=True)


def _sliced(batches: Iterator[pa.RecordBatch], max_records: int | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = batch.num_rows
        step = max_records or max(rows, 1)
        for start in range(0, rows, step):
            yield batch.slice(start, step)


def _selected(batch: pa.RecordBatch, schema: pa.Schema, options: ConsumerOptions) -> pa.RecordBatch:
    readable = decoded(batch, options.decode, schema.metadata[b"topic"].decode())
    return readable.select(schema.names).replace_schema_metadata(schema.metadata)


def _end_offset(batch: pa.RecordBatch) -> int:
    last: int = batch.column("offset")[-1].as_py()
    return last + 1
