"""Keeps transactions that the server sends before their commit on this machine's disk until then.

On commit, a transaction is converted to the messages of protocol version 1, without the changes
that were aborted. So the caller gets whole transactions in commit order.
"""

from __future__ import annotations

import contextlib
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from drumlin.capture.errors import CaptureError
from drumlin.capture.messages.frames import Malformed
from drumlin.capture.messages.streamed import (
    KINDS,
    BlockStart,
    StreamAbort,
    StreamCommit,
    begin_and_commit,
    decode_streamed,
    without_xid,
)

_ORIGIN: Final = ord("O")
_SIZE_BYTES: Final = 4
_XIDS: Final = 1 << 32


class StreamedTransactions:
    """The transactions of one connection that are sent in blocks. Must be closed."""

    def __init__(self) -> None:
        self._spools: dict[int, _Spool] = {}
        self._block: _Spool | None = None

    def close(self) -> None:
        for spool in self._spools.values():
            spool.close()
        self._spools.clear()

    @property
    def is_in_block(self) -> bool:
        """Whether the next messages belong to a block, whatever their kind."""
        return self._block is not None

    def takes(self, payload: bytes) -> bool:
        """Whether a message belongs to a transaction that is sent in blocks."""
        return self._block is not None or (len(payload) > 0 and payload[0] in KINDS)

    def take(self, payload: bytes) -> Iterator[bytes]:
        """The messages of a whole transaction once it is committed; until then, none.

        Raises:
            Malformed: the message is unexpected at this point.
            CaptureError: the transaction cannot be written to disk.
        """
        try:
            if self._block is not None and payload[0] != ord("E"):
                self._add(self._block, payload)
                return
            yield from self._take(payload)
        except OSError as error:
            raise CaptureError(
                f"folder {tempfile.gettempdir()} keeps large transactions until they are committed:"
                f" {error}: make room, or set TMPDIR to another folder"
            ) from None

    def _add(self, block: _Spool, payload: bytes) -> None:
        if payload[0] in KINDS:
            raise Malformed(f"a message of kind {chr(payload[0])!r} in a block")
        if payload[0] != _ORIGIN:
            block.add(*without_xid(payload))

    def _take(self, payload: bytes) -> Iterator[bytes]:
        message = decode_streamed(payload)
        if isinstance(message, BlockStart):
            self._block = self._spools.get(message.xid)
            if self._block is None:
                self._block = self._spools[message.xid] = _Spool(message.xid)
        elif isinstance(message, StreamCommit):
            begin, commit = begin_and_commit(message)
            yield begin
            if (spool := self._spools.pop(message.xid, None)) is not None:
                with contextlib.closing(spool):
                    yield from spool.payloads()
            yield commit
        elif isinstance(message, StreamAbort):
            spool = self._spools.get(message.xid)
            if spool is not None and message.subxid != message.xid:
                spool.cut(message.subxid)
            elif spool is not None:
                del self._spools[message.xid]
                spool.close()
        elif self._block is None:
            raise Malformed("a block ends that did not begin")
        else:
            self._block = None


class _Spool:
    """The messages of one transaction, and the position of each subtransaction's first message.

    An abort of a subtransaction removes every message since its first one: all of these are its own
    or those of nested subtransactions.
    """

    def __init__(self, xid: int) -> None:
        self._xid = xid
        self._file = tempfile.TemporaryFile(prefix="drumlin-capture-")  # noqa: SIM115  see `close`
        self._end = 0
        # The xids of subtransactions, relative to the transaction's xid and sorted. A nested
        # subtransaction gets its xid after its parent, and most first changes come in xid order.
        self._numbers = array("Q")
        self._starts = array("Q")

    def close(self) -> None:
        self._file.close()

    def add(self, xid: int, payload: bytes) -> None:
        if xid != self._xid:
            place, is_known = self._place(xid)
            if not is_known:
                self._numbers.insert(place, self._number(xid))
                self._starts.insert(place, self._end)
        self._file.write(len(payload).to_bytes(_SIZE_BYTES, "big"))
        self._file.write(payload)
        self._end += _SIZE_BYTES + len(payload)

    def cut(self, subxid: int) -> None:
        """Remove the changes of an aborted subtransaction."""
        place, is_known = self._place(subxid)
        if not is_known:
            return
        # The start is past the end if the abort of a nested subtransaction has just removed more.
        end = min(self._starts[place], self._end)
        self._file.seek(end)
        self._file.truncate()
        self._end = end
        kept = place
        for each in range(place + 1, len(self._starts)):
            if self._starts[each] < end:
                self._numbers[kept], self._starts[kept] = self._numbers[each], self._starts[each]
                kept += 1
        del self._numbers[kept:], self._starts[kept:]

    def payloads(self) -> Iterator[bytes]:
        self._file.seek(0)
        while size := self._file.read(_SIZE_BYTES):
            yield self._file.read(int.from_bytes(size, "big"))

    def _place(self, xid: int) -> tuple[int, bool]:
        number = self._number(xid)
        place = bisect_left(self._numbers, number)
        return place, place < len(self._numbers) and self._numbers[place] == number

    def _number(self, xid: int) -> int:
        return (xid - self._xid) % _XIDS  # xids wrap around
