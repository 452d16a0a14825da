"""Converts runs of the stream's messages to columns of records, without a turn for each row. Pure.

What needs more than its own row (large values that were not sent, tables that are being read, a
changed key) or is unusual in any way is left to `changes`, which takes the messages one by one.
Needs Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from drumlin.capture.changes import Changes, Table
from drumlin.capture.errors import CaptureError
from drumlin.capture.messages.pgoutput import Begin, Commit, decode
from drumlin.capture.messages.row_messages import UPDATE, NotAlike, RowMessages
from drumlin.capture.values import row_columns
from drumlin.capture.values.form import Form
from drumlin.capture.values.record import Columns, Headers, Op, Place
from drumlin.capture.values.row_columns import Numbers, Piece, encoded
from drumlin.capture.values.rows import RowFormat

#: Rows from this size on are taken one by one, as their size must be checked.
_LARGE_BYTES: Final = 16 << 10


class Part(NamedTuple):
    """A transaction, as far as a run has it."""

    begin: Begin | None
    records: int  # how many it has in the run
    end_lsn: int | None  # None: it goes on


class Taken(NamedTuple):
    """What a run of messages has become: the records of each table, in their order."""

    parts: list[Part]
    columns: list[Columns]


class _Rows(NamedTuple):
    """The rows of one transaction: where they stand among all rows of the run."""

    first: int
    last: int
    time_ms: int
    place: Place


class ChangeColumns:
    """Takes runs of messages in place of `Changes.take`."""

    def __init__(self, changes: Changes, form: Form) -> None:
        self._changes = changes
        self._form = form

    def take(self, payloads: Sequence[bytes]) -> Taken | None:
        """The records of these messages; None: nothing was done, and they must be taken singly."""
        if max(map(len, payloads)) > _LARGE_BYTES:
            return None
        mark = self._changes.mark()
        try:
            return self._taken(payloads)
        except (NotAlike, ValueError, CaptureError):  # the right error is raised for the one row
            self._changes.go_back(mark)
            return None

    def _taken(self, payloads: Sequence[bytes]) -> Taken:
        messages = RowMessages(payloads)
        parts, pieces = self._transactions(messages, payloads)
        if not pieces:
            return Taken(parts, [])
        each_of = np.concatenate([np.arange(each.first, each.last) for each in pieces])
        piece_of = np.repeat(np.arange(len(pieces)), [each.last - each.first for each in pieces])
        rows, oids = messages.rows[each_of], messages.oids()[each_of]
        found = []
        for oid in np.unique(oids).tolist():
            is_of = oids == oid
            found.append(self._columns(messages, oid, rows[is_of], piece_of[is_of], pieces))
        return Taken(parts, found)

    def _transactions(
        self, messages: RowMessages, payloads: Sequence[bytes]
    ) -> tuple[list[Part], list[_Rows]]:
        """The transactions, and the rows of those that are not written yet."""
        parts: list[Part] = []
        pieces: list[_Rows] = []
        begin: Begin | None = None
        first = count = 0
        for number, other in enumerate(messages.others):
            last = other - number  # the rows before this message
            count += self._note(pieces, first, last)
            first = last
            message = decode(payloads[other])
            if not isinstance(message, Begin | Commit):
                raise NotAlike
            self._changes.take(message)
            if isinstance(message, Begin):
                begin = message
            else:
                parts.append(Part(begin, count, self._changes.end_lsn))
                begin, count = None, 0
        count += self._note(pieces, first, len(messages.rows))
        return [*parts, Part(begin, count, None)], pieces

    def _note(self, pieces: list[_Rows], first: int, last: int) -> int:
        """Add the rows of the current transaction, and return how many are to be written."""
        if first == last or self._changes.is_past:
            return 0
        pieces.append(_Rows(first, last, self._changes.time_ms, self._changes.place))
        return last - first

    def _columns(
        self,
        messages: RowMessages,
        oid: int,
        rows: Numbers,
        piece_of: Numbers,
        pieces: Sequence[_Rows],
    ) -> Columns:
        """The records of one table."""
        found = self._changes.plain_table(oid)
        if found is None:
            raise NotAlike
        table, shape = found
        columns = messages.columns(rows, len(shape.fields))
        codes = 2 * piece_of + (messages.kinds[rows] == UPDATE)
        start, end, headers = self._around(table, shape, codes, pieces)
        keys = row_columns.keys(shape, columns)
        values = row_columns.values(shape, columns, start, end)
        times = np.array([each.time_ms for each in pieces])[piece_of]
        return Columns(table.topic, keys, values, pa.array(times), headers)

    def _around(
        self, table: Table, shape: RowFormat, codes: Numbers, pieces: Sequence[_Rows]
    ) -> tuple[Piece, Piece, Sequence[Headers]]:
        """What stands around each row, by the code of its transaction and operation."""
        known = np.flatnonzero(np.bincount(codes)).tolist()
        found = [
            self._form.around(
                table.topic,
                shape.frame,
                Op.UPDATE if code % 2 else Op.CREATE,
                pieces[code // 2].place,
            )
            for code in known
        ]
        which = np.searchsorted(known, codes)
        start, end = (
            row_columns.repeated([encoded(each[place]) for each in found], which)
            for place in range(2)
        )
        if not found[0].headers:
            return start, end, ()
        return start, end, [found[each].headers for each in which.tolist()]
