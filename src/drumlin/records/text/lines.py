"""Writes the records in fetched bytes as lines of text, in pieces that fit a processor's cache.

Batches that are neither compressed nor of an aborted transaction are found by a kernel, a whole
fetch at once; others one by one. Either way one kernel writes the lines.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from drumlin.records.batch.batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    CRC_START,
    HEADER_SIZE,
    Buffer,
    parse_header,
)
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.crc32c import crc32c
from drumlin.records.batch.crc_table import crc_table
from drumlin.records.batch.varint import INT64_MAX
from drumlin.records.kernels import layout as at
from drumlin.records.kernels.machine_code import Kernels
from drumlin.records.plain.bodies import Body, Selection, select_bodies
from drumlin.records.text.line_form import LineForm

_PIECE_BYTES: Final = 512 * 1024
_ROWS: Final = 1024
#: Of larger batches the kernel does not check the CRC.
_LARGE: Final = at.SCAN_SIZE_MAX - HEADER_SIZE
_NOT_PLAIN: Final = COMPRESSION_MASK | CONTROL_MASK
_FindState = ctypes.c_int64 * at.FIND_STATE_WIDTH
_LinesState = ctypes.c_int64 * at.LINES_STATE_WIDTH
_Bodies = ctypes.c_int64 * (_ROWS * at.BODY_WIDTH)
_Row = ctypes.c_int64 * at.BODY_WIDTH


class Lines(NamedTuple):
    """Lines of some records of one partition; the text is valid until the next ones are made."""

    text: memoryview
    records: int
    last_offset: int


def lines_of(
    kernels: Kernels,
    buffer: Buffer,
    selection: Selection,
    form: LineForm,
    count_max: int = INT64_MAX,
) -> Iterator[Lines]:
    """The lines of up to `count_max` records in fetched bytes, in order.

    A batch that is cut off at the end of the bytes is left out.

    Raises:
        CorruptRecord: the bytes are not record batches.
    """
    writer = _Writer(kernels, form, selection, count_max)
    for source, table, rows in _bodies(kernels, buffer, selection):
        yield from writer.write(source, table, rows)
        if writer.is_done:
            break
    yield from writer.rest()


class _Writer:
    """Memory for lines, and how much of it is filled."""

    def __init__(
        self, kernels: Kernels, form: LineForm, selection: Selection, count_max: int
    ) -> None:
        self._kernels = kernels
        self._form = form
        self._left = count_max
        self._memory = bytearray(_PIECE_BYTES)
        self._state = state = _LinesState()
        state[at.LINES_FIRST_OFFSET] = selection.start_offset
        state[at.LINES_END_OFFSET] = selection.end_offset
        state[at.LINES_COUNT_MAX] = count_max

    @property
    def is_done(self) -> bool:
        """Whether as many lines were written as are wanted."""
        return bool(self._state[at.LINES_COUNT] == self._left)

    def write(self, source: Buffer, table: Any, rows: int) -> Iterator[Lines]:
        """Write the records of some bodies; yields lines where the memory is full.

        Raises:
            CorruptRecord: a body does not match its header.
        """
        state, form = self._state, self._form
        for place in (at.LINES_AT_BODY, at.LINES_AT_RECORD, at.LINES_AT_POSITION):
            state[place] = 0
        start = _address(source)
        while True:
            state[at.LINES_ROOM] = len(self._memory)
            target = _address(self._memory)
            answer = self._kernels.write_lines(
                start, len(source), table, rows, form.table, form.text, target, state
            )
            del target  # the memory may grow, or be read
            if answer == at.DONE:
                return
            if answer != at.IS_FULL:
                raise CorruptRecord(f"malformed records from byte {~answer} of {len(source)} on")
            yield from self.rest()
            if state[at.LINES_NEEDED] > len(self._memory):
                self._memory = bytearray(state[at.LINES_NEEDED])

    def rest(self) -> Iterator[Lines]:
        """The lines that were not yielded yet."""
        state = self._state
        count = state[at.LINES_COUNT]
        if count:
            text = memoryview(self._memory)[: state[at.LINES_BYTES]]
            yield Lines(text, count, state[at.LINES_LAST_OFFSET])
        self._left -= count
        state[at.LINES_COUNT_MAX] = self._left
        state[at.LINES_COUNT] = state[at.LINES_BYTES] = 0


def _bodies(
    kernels: Kernels, buffer: Buffer, selection: Selection
) -> Iterator[tuple[Buffer, Any, int]]:
    """The bodies with wanted records, each with its bytes and as rows of a table."""
    position = 0
    if not selection.aborted:
        table, state = _Bodies(), _FindState()
        state[at.FIND_COUNT_MAX] = _ROWS
        state[at.FIND_FIRST_OFFSET] = selection.start_offset
        state[at.FIND_END_OFFSET] = selection.end_offset
        state[at.FIND_CHECKS_CRC] = selection.verify_crc
        start = _address(buffer)
        while True:
            position, state[at.FIND_COUNT] = state[at.FIND_POSITION], 0
            answer = kernels.find_bodies(start, len(buffer), state, table, crc_table())
            if answer < 0 or not _are_plain(buffer, table, state[at.FIND_COUNT], selection):
                break
            yield buffer, table, state[at.FIND_COUNT]
            if answer == at.DONE:
                return
    # Damaged, compressed or of transactions: whichever it is, this knows.
    for body in select_bodies(memoryview(buffer)[position:], selection):
        yield body.source, _row(body), 1


def _are_plain(buffer: Buffer, table: Any, count: int, selection: Selection) -> bool:
    """Whether the bodies that the kernel has found are sound, and can be read as they are."""
    end = count * at.BODY_WIDTH
    if any(each & _NOT_PLAIN for each in table[at.BODY_ATTRIBUTES : end : at.BODY_WIDTH]):
        return False
    view = memoryview(buffer)
    places = zip(
        table[at.BODY_START : end : at.BODY_WIDTH],
        table[at.BODY_END : end : at.BODY_WIDTH],
        strict=True,
    )
    large = ((start - HEADER_SIZE, end) for start, end in places if end - start > _LARGE)
    return not selection.verify_crc or all(
        crc32c(view[start + CRC_START : end]) == parse_header(buffer, start).crc
        for start, end in large
    )


def _row(body: Body) -> Any:
    header = body.header
    row = _Row()
    row[at.BODY_START], row[at.BODY_END] = body.start, body.end
    row[at.BODY_COUNT] = header.record_count
    row[at.BODY_BASE_OFFSET] = header.base_offset
    row[at.BODY_BASE_TIMESTAMP] = header.base_timestamp
    row[at.BODY_IS_LOG_APPEND_TIME] = header.is_log_append_time
    row[at.BODY_MAX_TIMESTAMP] = header.max_timestamp
    return row


def _address(buffer: Buffer) -> Any:
    """The bytes of a buffer, for a kernel; they stay in place while this is kept."""
    if isinstance(buffer, bytes) or not len(buffer):
        return bytes(buffer)
    try:
        return ctypes.byref(ctypes.c_char.from_buffer(buffer))
    except TypeError:  # it cannot be written
        return bytes(buffer)
