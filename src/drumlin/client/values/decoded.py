"""The result of every decoder: a column of decoded values, and the reasons for missing ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Decoded:
    """The values of the rows of a column of bytes.

    A row without a value is null in `values`. If its bytes were null, the row is a tombstone, which
    is not an error; if they could not be decoded, `reasons` has the reason by row.
    """

    values: pa.Array
    reasons: dict[int, str] = field(default_factory=dict)


class Rows(NamedTuple):
    """The values of some rows of a column, and by row the reasons for null or missing values."""

    rows: np.ndarray
    values: pa.Array
    reasons: dict[int, str]


def gathered(
    parts: list[tuple[np.ndarray, pa.Array]], row_count: int, wanted: pa.DataType
) -> pa.Array:
    """The values of all parts, each in its row; null in rows that no part has."""
    if not parts:
        return pa.nulls(row_count, wanted)
    if len(parts) == 1 and np.array_equal(parts[0][0], np.arange(row_count)):
        return parts[0][1]
    place_of_row = np.full(row_count, -1, np.int64)
    place_of_row[np.concatenate([rows for rows, _ in parts])] = np.arange(
        sum(len(rows) for rows, _ in parts)
    )
    places = pa.array(place_of_row, mask=place_of_row < 0)
    return pa.concat_arrays([values for _, values in parts]).take(places)
