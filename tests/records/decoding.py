"""All records of fetched bytes in one RecordBatch, as tests look at them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from drumlin.records.batch.batch import Buffer
from drumlin.records.columns.columns import iterate_arrow, record_schema

_EVERYTHING = {"max_rows": 2**31 - 1, "max_bytes": 2**31 - 1}


def decode_to_arrow(
    buffers: Iterable[Buffer],
    *,
    columns: Sequence[str] | None = None,
    with_headers: bool = False,
    **options: Any,
) -> pa.RecordBatch:
    """Decode like `iterate_arrow`, with its options."""
    chosen = {"columns": columns, "with_headers": with_headers}
    batches = list(iterate_arrow(buffers, **chosen, **options, **_EVERYTHING))
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=record_schema(**chosen))
    if len(batches) > 1:
        batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    (batch,) = batches
    return batch
