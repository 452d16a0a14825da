"""Converts runs of the stream's messages to columns of records, without a turn for each row. Pure.

What needs more than its own row (large values that were not sent, tables that are being read, a
changed key) or is unusual in any way is left to `changes`, which takes the messages one by one.
Needs Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from drumlin.capture.changes import Changes, Table
from drumlin.capture.errors import CaptureError
from drumlin.capture.messages.pgoutput import Begin, Commit, decode
from drumlin.capture.messages.row_messages import DELETE, UPDATE, NotAlike, RowMessages
from drumlin.capture.values import row_columns
from drumlin.capture.values.form import Form
from drumlin.capture.values.record import Columns, Headers, Op, Place
from drumlin.capture.values.row_columns import Numbers, Piece, encoded
from drumlin.capture.values.rows import RowFormat

#: Rows from this size on are taken one by one, as their size must be checked.
_LARGE_BYTES: Final = 16 << 10
_OPS: Final = (Op.CREATE, Op.UPDATE, Op.DELETE)


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


class _OfTable(NamedTuple):
    """The rows of one table: the numbers of their messages, and the piece that each is in."""

    messages: RowMessages
    numbers: Numbers
    piece_of: Numbers
    pieces: Sequence[_Rows]


class _Made(NamedTuple):
    """Records of some rows of a table, and where these are among all of its rows."""

    places: Numbers
    keys: pa.Array
    values: pa.Array
    headers: Sequence[Headers]


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
            of_table = _OfTable(messages, rows[is_of], piece_of[is_of], pieces)
            found.append(self._columns(oid, of_table))
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

    def _columns(self, oid: int, rows: _OfTable) -> Columns:
        """The records of one table, in the order of its rows."""
        found = self._changes.plain_table(oid)
        if found is None:
            raise NotAlike
        table, shape = found
        is_delete = rows.messages.kinds[rows.numbers] == DELETE
        made = [
            each
            for places in (np.flatnonzero(~is_delete), np.flatnonzero(is_delete))
            if len(places)
            for each in self._made(table, shape, rows, places)
        ]
        places, keys, values, headers = made[0]
        if len(made) > 1:
            places = np.concatenate([each.places for each in made])
            order = np.argsort(places, kind="stable")  # a tombstone comes after its envelope
            places, taken = places[order], pa.array(order)
            keys = pa.concat_arrays([each.keys for each in made]).take(taken)
            values = pa.concat_arrays([each.values for each in made]).take(taken)
            every = [each for one in made for each in one.headers]
            headers = [every[each] for each in order.tolist()] if every else ()
        times = np.array([each.time_ms for each in rows.pieces])[rows.piece_of[places]]
        return Columns(table.topic, keys, values, pa.array(times), headers)

    def _made(
        self, table: Table, shape: RowFormat, rows: _OfTable, places: Numbers
    ) -> Iterator[_Made]:
        """The records of deleted rows, or of others: first those with values, then tombstones."""
        numbers, piece_of = rows.numbers[places], rows.piece_of[places]
        columns = rows.messages.columns(numbers, len(shape.fields))
        kinds = rows.messages.kinds[numbers]
        codes = len(_OPS) * piece_of + (kinds == UPDATE) + 2 * (kinds == DELETE)
        start, end, headers = self._around(table, shape, codes, rows.pieces)
        keys = row_columns.keys(shape, columns)
        is_delete = kinds[0] == DELETE
        has_value = not is_delete or shape.has_before
        if has_value:
            yield _Made(places, keys, row_columns.values(shape, columns, start, end), headers)
        if is_delete and (not has_value or self._form.has_tombstones):
            yield _Made(places, keys, pa.nulls(len(places), pa.binary()), headers)

    def _around(
        self, table: Table, shape: RowFormat, codes: Numbers, pieces: Sequence[_Rows]
    ) -> tuple[Piece, Piece, Sequence[Headers]]:
        """What stands around each row, by the code of its transaction and operation."""
        known = np.flatnonzero(np.bincount(codes)).tolist()
        found = []
        for code in known:
            piece, op = divmod(code, len(_OPS))
            found.append(self._form.around(table.topic, shape.frame, _OPS[op], pieces[piece].place))
        which = np.searchsorted(known, codes)
        start, end = (
            row_columns.repeated([encoded(each[part]) for each in found], which)
            for part in range(2)
        )
        if not found[0].headers:
            return start, end, ()
        return start, end, [found[each].headers for each in which.tolist()]
