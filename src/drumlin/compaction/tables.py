"""Compaction of records in Arrow tables, by the same rule as for logs.

For applications that need the last value of every key, and for jobs over exported data. A broker
must never import this module, as it imports Arrow.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drumlin.compaction.survivors import NO_DELETE_HORIZON, is_kept


def survivors(records: pa.Table, *, now_ms: int, round_end_offset: int | None = None) -> pa.Table:
    """The records that a cleaning keeps, in their order.

    Args:
        records: the columns `offset`, `key` and `value`, as the columnar client reads one partition
            without aborted transactions; optionally `delete_horizon_ms`, null if not set.
        now_ms: the time of the cleaning.
        round_end_offset: the first offset that is not cleaned; by default, all records are cleaned.

    Raises:
        KeyError: a column is missing.
    """
    offsets = records["offset"].to_numpy()
    if round_end_offset is None:
        round_end_offset = int(offsets.max()) + 1 if len(offsets) else 0
    has_key = records["key"].is_valid().to_numpy()
    horizon: object = NO_DELETE_HORIZON
    if "delete_horizon_ms" in records.column_names:
        horizon = pc.fill_null(records["delete_horizon_ms"], NO_DELETE_HORIZON).to_numpy()
    mask = is_kept(
        offset=offsets,
        has_key=has_key,
        has_value=records["value"].is_valid().to_numpy(),
        last_offset_of_key=_last_offsets(records, offsets, has_key & (offsets < round_end_offset)),
        is_aborted=np.zeros(len(offsets), np.bool_),
        delete_horizon_ms=horizon,
        round_end_offset=round_end_offset,
        now_ms=now_ms,
    )
    return records.filter(pa.array(mask))


def _last_offsets(records: pa.Table, offsets: np.ndarray, is_looked_at: np.ndarray) -> np.ndarray:
    """For each row, the last offset of its key among the selected rows; -1 if there is none."""
    encoded = records["key"].combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    numbers = pc.fill_null(encoded.indices, 0).to_numpy()
    last = np.full(max(1, len(encoded.dictionary)), -1, np.int64)
    np.maximum.at(last, numbers[is_looked_at], offsets[is_looked_at])
    found: np.ndarray = last[numbers]
    return found
