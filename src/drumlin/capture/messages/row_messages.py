"""Converts many `pgoutput` messages of rows at once to columns of text. Needs Arrow.

Nearly all messages of a busy stream have one layout: inserted rows, updates with only the new row,
and deletes. So the n-th values of all rows are located together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Places: TypeAlias = NDArray[Any]

INSERT: Final = ord("I")
UPDATE: Final = ord("U")
DELETE: Final = ord("D")
_NEW: Final = ord("N")
_TEXT: Final = ord("t")
_NULL: Final = ord("n")
#: The position, after kind and oid, of the byte that tells the new row from the old row or its key.
_WHICH_AT: Final = 5
#: The size of the fields before the values, including the number of columns.
_HEAD_BYTES: Final = 8
_OID_AT: Final = 1


class NotAlike(Exception):
    """The messages cannot be converted together, only one by one."""


class RowMessages:
    """Consecutive messages of one connection."""

    def __init__(self, payloads: Sequence[bytes]) -> None:
        sizes = np.fromiter(map(len, payloads), np.int64, len(payloads))
        if sizes.min() < _HEAD_BYTES:
            raise NotAlike
        self._data = b"".join(payloads)
        self._bytes = np.frombuffer(self._data, np.uint8)
        self._ends = np.cumsum(sizes)
        self._starts = self._ends - sizes
        self.kinds: Places = self._bytes[self._starts]
        is_new = self._bytes[self._starts + _WHICH_AT] == _NEW
        is_row = ((self.kinds == INSERT) | (self.kinds == UPDATE)) & is_new
        is_row |= self.kinds == DELETE
        #: The indexes of the messages of rows, and of all others.
        self.rows: Places = np.flatnonzero(is_row)
        self.others: list[int] = np.flatnonzero(~is_row).tolist()

    def oids(self) -> Places:
        """The table of each row."""
        return self._number(self._starts[self.rows] + _OID_AT)

    def columns(self, rows: Places, count: int) -> list[pa.Array]:
        """The values of each column in these rows of one table, as binary; null for a null.

        Raises:
            NotAlike: a row has another number of columns, or values that were not sent.
        """
        at, ends = self._starts[rows] + _HEAD_BYTES, self._ends[rows]
        if (self._bytes[at - 2].astype(np.int64) << 8 | self._bytes[at - 1] != count).any():
            raise NotAlike
        bounds = np.empty((len(rows), count, 2), np.int32)
        nulls = []
        for place in range(count):
            if (at >= ends).any():
                raise NotAlike
            kinds = self._bytes[at]
            is_null = kinds == _NULL
            if not (is_null | (kinds == _TEXT)).all():
                raise NotAlike
            has_nulls = bool(is_null.any())
            nulls.append(is_null if has_nulls else None)
            if has_nulls:
                sizes = self._number(np.where(is_null, 0, at + 1))
                sizes[is_null] = 0
                at = at + np.where(is_null, 1, 5)
            else:
                sizes = self._number(at + 1)
                at = at + 5
            bounds[:, place, 0] = at
            at = at + sizes
            if (at > ends).any():
                raise NotAlike
            bounds[:, place, 1] = at
        if (at != ends).any():
            raise NotAlike
        return self._slices(bounds, nulls)

    def _slices(self, bounds: Places, nulls: Sequence[Places | None]) -> list[pa.Array]:
        """The values: every second slice between the bounds; the others are the heads of values."""
        row_count, count, _ = bounds.shape
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self._data)]
        whole = pa.Array.from_buffers(pa.binary(), bounds.size - 1, buffers)
        first = np.arange(row_count, dtype=np.int64) * (2 * count)
        return [
            whole.take(pa.array(first + 2 * place, mask=is_null))
            for place, is_null in enumerate(nulls)
        ]

    def _number(self, at: Places) -> Places:
        """The number in the four bytes at each of these positions."""
        at = np.minimum(at, len(self._bytes) - 4)  # truncated messages are detected later
        found = self._bytes[at].astype(np.int64)
        for each in range(1, 4):
            found = found << 8 | self._bytes[at + each]
        return found
