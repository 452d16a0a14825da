"""Converts runs of the stream's messages to columns of records, not row by row. Pure.

A row of another layout, such as one whose key has changed, is converted by `changes`, and put in
its place among the others. A run that needs more than its own rows (large values that were not
sent, tables that are being read), or contains an error, is left to `changes` as a whole, which
converts the messages one by one. Needs Arrow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from drumlin.capture.changes import Changes, Table
from drumlin.capture.errors import CaptureError
from drumlin.capture.messages.pgoutput import Begin, Commit, Delete, Insert, Message, Update, decode
from drumlin.capture.messages.row_messages import DELETE, UPDATE, NotAlike, RowMessages
from drumlin.capture.values import row_columns
from drumlin.capture.values.form import Form
from drumlin.capture.values.record import Columns, Headers, Op, Place, Record
from drumlin.capture.values.row_columns import Numbers, Piece, encoded
from drumlin.capture.values.rows import RowFormat

#: Rows of at least this size are converted one by one, as their size must be checked.
_LARGE_BYTES: Final = 16 << 10
_OPS: Final = (Op.CREATE, Op.UPDATE, Op.DELETE)


class Part(NamedTuple):
    """The part of a transaction that is in a run."""

    begin: Begin | None
    has_records: bool
    end_lsn: int | None  # None: the transaction continues in the next run


class Taken(NamedTuple):
    """The result of a run of messages: the records of each table, in their order."""

    parts: list[Part]
    columns: list[Columns]


class ChangeColumns:
    """Converts runs of messages, in place of `Changes.take`."""

    def __init__(self, changes: Changes, form: Form) -> None:
        self._changes = changes
        self._form = form

    def take(self, payloads: Sequence[bytes]) -> Taken | None:
        """The records of these messages; None: nothing was done, and each must be taken by itself.

        Raises:
            RowsNeeded: as `Changes.take`.
        """
        if max(map(len, payloads)) > _LARGE_BYTES:
            return None
        mark = self._changes.mark()
        try:
            return _Run(self._changes, self._form, payloads).taken()
        except (NotAlike, ValueError, CaptureError):  # row by row, the right error is raised
            self._changes.go_back(mark)
            return None


class _Piece(NamedTuple):
    """Consecutive rows of one transaction: their range among the rows of the run."""

    first: int
    last: int
    time_ms: int
    place: Place


class _Made(NamedTuple):
    """Records of one topic, each with the number of its message."""

    numbers: Numbers
    keys: pa.Array
    values: pa.Array
    times_ms: Numbers
    headers: Sequence[Headers]


class _Run:
    """The conversion of one run."""

    def __init__(self, changes: Changes, form: Form, payloads: Sequence[bytes]) -> None:
        self._changes, self._form, self._payloads = changes, form, payloads
        self._messages = RowMessages(payloads)
        self._parts: list[Part] = []
        self._pieces: list[_Piece] = []
        self._singles: list[tuple[int, Record]] = []
        self._begin: Begin | None = None
        self._has_records = False
        self._made: defaultdict[str, list[_Made]] = defaultdict(list)

    def taken(self) -> Taken:
        """
        Raises:
            NotAlike, ValueError, CaptureError: the run cannot be converted as a whole.
        """
        self._go_through()
        if self._pieces:
            self._make_together()
        if self._singles:
            self._make_singles()
        return Taken(self._parts, [_merged(topic, made) for topic, made in self._made.items()])

    def _go_through(self) -> None:
        """Find the transactions, and the rows that are not written yet."""
        first = 0
        for count, number in enumerate(self._messages.others):
            last = number - count  # the rows before this message
            self._note(first, last)
            first = last
            message = decode(self._payloads[number])
            if isinstance(message, Begin):
                self._changes.take(message)
                self._begin = message
            elif isinstance(message, Commit):
                self._changes.take(message)
                self._end(self._changes.end_lsn)
            else:
                self._take_single(number, message)
        self._note(first, len(self._messages.rows))
        self._end(None)

    def _end(self, end_lsn: int | None) -> None:
        self._parts.append(Part(self._begin, self._has_records, end_lsn))
        self._begin, self._has_records = None, False

    def _note(self, first: int, last: int) -> None:
        """Add rows of the current transaction, unless they are written already."""
        if first == last or self._changes.is_past:
            return
        self._pieces.append(_Piece(first, last, self._changes.time_ms, self._changes.place))
        self._has_records = True

    def _take_single(self, number: int, message: Message) -> None:
        if not isinstance(message, Insert | Update | Delete):
            raise NotAlike
        self._plain_table(message.oid)
        for record in self._changes.take(message):
            self._has_records = True
            for each in self._form.written(record, self._changes.place):
                self._singles.append((number, each))

    def _plain_table(self, oid: int) -> tuple[Table, RowFormat]:
        found = self._changes.plain_table(oid)
        if found is None:
            raise NotAlike
        return found

    def _make_together(self) -> None:
        messages, pieces = self._messages, self._pieces
        which = np.concatenate([np.arange(each.first, each.last) for each in pieces])
        piece_of = np.repeat(np.arange(len(pieces)), [each.last - each.first for each in pieces])
        numbers, oids = messages.rows[which], messages.oids()[which]
        is_delete = messages.kinds[numbers] == DELETE
        for oid in np.unique(oids).tolist():
            for are_deletes in (False, True):
                those = np.flatnonzero((oids == oid) & (is_delete == are_deletes))
                if len(those):
                    self._make(oid, numbers[those], piece_of[those], are_deletes)

    def _make(self, oid: int, numbers: Numbers, piece_of: Numbers, are_deletes: bool) -> None:
        """Add the records of deleted rows, or of other rows; tombstones come after envelopes."""
        table, shape = self._plain_table(oid)
        columns = self._messages.columns(numbers, len(shape.fields))
        kinds = self._messages.kinds[numbers]
        codes = len(_OPS) * piece_of + (kinds == UPDATE) + 2 * (kinds == DELETE)
        start, end, headers = self._around(table, shape, codes)
        keys = row_columns.keys(shape, columns)
        times_ms = np.array([each.time_ms for each in self._pieces])[piece_of]
        made = self._made[table.topic]
        has_values = not are_deletes or shape.has_before
        if has_values:
            values = row_columns.values(shape, columns, start, end)
            made.append(_Made(numbers, keys, values, times_ms, headers))
        if are_deletes and (not has_values or self._form.has_tombstones):
            values = pa.nulls(len(numbers), pa.binary())
            made.append(_Made(numbers, keys, values, times_ms, headers))

    def _around(
        self, table: Table, shape: RowFormat, codes: Numbers
    ) -> tuple[Piece, Piece, Sequence[Headers]]:
        """The text before and after each row, by the code of its transaction and operation."""
        known = np.flatnonzero(np.bincount(codes)).tolist()
        found = []
        for code in known:
            piece, op = divmod(code, len(_OPS))
            place = self._pieces[piece].place
            found.append(self._form.around(table.topic, shape.frame, _OPS[op], place))
        which = np.searchsorted(known, codes)
        start, end = (
            row_columns.repeated([encoded(each[part]) for each in found], which)
            for part in range(2)
        )
        return start, end, [found[each].headers for each in which.tolist()]

    def _make_singles(self) -> None:
        by_topic: defaultdict[str, list[tuple[int, Record]]] = defaultdict(list)
        for number, record in self._singles:
            by_topic[record.topic].append((number, record))
        for topic, found in by_topic.items():
            numbers, records = zip(*found, strict=True)
            _, keys, values, times_ms, _, _, headers = zip(*records, strict=True)
            data = pa.binary()
            self._made[topic].append(
                _Made(
                    np.array(numbers),
                    pa.array(keys, data),
                    pa.array(values, data),
                    np.array(times_ms),
                    headers,
                )
            )


def _merged(topic: str, made: Sequence[_Made]) -> Columns:
    """The records of a topic in the order of their messages."""
    if len(made) == 1:
        ((_, keys, values, times_ms, headers),) = made
        return Columns(topic, keys, values, pa.array(times_ms), headers)
    order = np.argsort(np.concatenate([each.numbers for each in made]), kind="stable")
    taken = pa.array(order)
    every = [headers for each in made for headers in each.headers]
    return Columns(
        topic,
        pa.concat_arrays([each.keys for each in made]).take(taken),
        pa.concat_arrays([each.values for each in made]).take(taken),
        pa.array(np.concatenate([each.times_ms for each in made])[order]),
        [every[each] for each in order.tolist()],
    )
