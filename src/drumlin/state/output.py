"""The output of the user's code: single records, which are collected into tables, and tables.

Output to a topic is written in the order of the calls. During an attempt all output is held back.
Errors after which the transaction can only be aborted are raised by the commit: the user's code
cannot handle them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from drumlin import lowlevel
from drumlin.client import arguments
from drumlin.client.errors import ClientError, CommitFailed
from drumlin.client.tables import as_table
from drumlin.client.transactions.errors import (
    ProducerFenced,
    TransactionAborted,
    UnknownTransaction,
)

if TYPE_CHECKING:
    from drumlin.client.client import Client
    from drumlin.client.tables import TableLike
    from drumlin.client.transactions.transaction import Transaction
    from drumlin.client.write.writer import Writer

#: Errors after which the transaction is certainly aborted, and its records may be read again.
ABORTED: Final = (CommitFailed, ProducerFenced, TransactionAborted, UnknownTransaction)
_WRITER_BATCH_BYTES: Final = 512 << 10
#: The most records and bytes that are collected for one topic.
_ROWS_MAX: Final = 10_000
_BYTES_MAX: Final = 4 << 20


class _Rows:
    """Records for one topic that have a key and a value, and nothing else."""

    __slots__ = ("keys", "size_bytes", "values")

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.size_bytes = 0


class Output:
    """The output since the last commit."""

    def __init__(
        self, target: Callable[[], Client | Transaction], transaction: Callable[[], Any]
    ) -> None:
        """
        Args:
            target: returns the transaction or the client that writes; begins the transaction.
            transaction: returns the transaction of the work; None: it has not begun.
        """
        self._target = target
        self._transaction = transaction
        self._known: set[str] = set()
        self._rows: dict[str, _Rows] = {}
        self._writers: dict[str, Writer] = {}
        #: The error of a write that aborts the transaction.
        self.abort_reason: ClientError | None = None
        #: The writes of the current attempt; None: outside attempts.
        self._held: list[Callable[[], None]] | None = None
        #: By topic: the last held write, if it is of single records to which more can be added.
        self._held_rows: dict[str, _Rows] = {}

    # -- for the user's code -------------------------------------------------------------

    def send(self, topic: str, value: Any, key: Any, record: Mapping[str, Any]) -> None:
        """Write a record. Raises what `Writer.send` raises, except errors in ABORTED."""
        value, key = arguments.as_bytes("value", value), arguments.as_bytes("key", key)
        if topic not in self._known:
            self._unless_aborted(lambda: self._writer(topic))  # raises if there is no such topic
            self._known.add(topic)
        if record:
            self._send_alone(topic, value, key, record)
            return
        rows = self._rows_of(topic)
        rows.keys.append(key)
        rows.values.append(value)
        rows.size_bytes += len(value or b"") + len(key or b"")
        if self._held is None and (len(rows.keys) >= _ROWS_MAX or rows.size_bytes >= _BYTES_MAX):
            self._write_rows(topic)

    def _rows_of(self, topic: str) -> _Rows:
        if self._held is None:
            found = self._rows.get(topic)
            if found is None:
                found = self._rows[topic] = _Rows()
            return found
        held = self._held_rows.get(topic)
        if held is None:
            held = rows = self._held_rows[topic] = _Rows()
            self._held.append(lambda: self._take(topic, rows))
        return held

    def _send_alone(self, topic: str, value: Any, key: Any, record: Mapping[str, Any]) -> None:
        if record.get("headers") is not None:
            record = {**record, "headers": arguments.as_headers(record["headers"])}
        if record.get("timestamp") is not None:
            arguments.timestamp_ms(record["timestamp"])
        self._after_rows(
            topic, lambda: self._writer(topic).send(value, key, **record), flushes=False
        )

    def append(self, data: TableLike, topic: str, options: Mapping[str, Any]) -> None:
        """Write a table. Raises what `Transaction.append` raises, except errors in ABORTED."""
        table = as_table(data)
        self._after_rows(
            topic, lambda: self._target().append(table, topic, **options), flushes=True
        )

    def _after_rows(self, topic: str, write: Callable[[], object], *, flushes: bool) -> None:
        """Write something else to a topic, now or when the attempt is kept."""

        def write_in_order() -> None:
            self._write_rows(topic)
            if flushes and topic in self._writers:
                self._unless_aborted(self._writers[topic].flush)
            self._unless_aborted(write)

        if self._held is None:
            write_in_order()
        else:
            self._held_rows.pop(topic, None)
            self._held.append(write_in_order)

    # -- attempts ------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether an attempt is in progress."""
        return self._held is not None

    def hold(self) -> None:
        """Begin an attempt: hold back all output from now on."""
        self._held = []
        self._held_rows.clear()

    def drop_held(self) -> None:
        """End the attempt, and drop the output that was held back."""
        self._held = None

    def write_held(self) -> None:
        """End the attempt, and write the output that was held back."""
        held, self._held = self._held or [], None
        for write in held:
            write()

    # -- writing -------------------------------------------------------------------------

    def flush(self) -> None:
        """Write all records that were collected, and wait for them."""
        for topic in list(self._rows):
            self._write_rows(topic)
        for writer in self._writers.values():
            self._unless_aborted(writer.flush)

    def forget(self, *, writers: bool) -> None:
        """Drop unwritten output, as the transaction has ended.

        Args:
            writers: whether the writers were those of the transaction.
        """
        self.abort_reason = None
        self._held = None
        self._rows.clear()
        if writers:
            self._writers.clear()

    def _take(self, topic: str, rows: _Rows) -> None:
        """Add rows that were held back to those that are collected."""
        before = self._rows.get(topic)
        if before is not None:
            before.keys += rows.keys
            before.values += rows.values
            before.size_bytes += rows.size_bytes
            rows = before
        self._rows[topic] = rows
        if len(rows.keys) >= _ROWS_MAX or rows.size_bytes >= _BYTES_MAX:
            self._write_rows(topic)

    def _write_rows(self, topic: str) -> None:
        rows = self._rows.pop(topic, None)
        if rows is None:
            return
        writer = self._writers.get(topic)
        if writer is not None:
            self._unless_aborted(writer.flush)
        table = pa.table(
            {"key": pa.array(rows.keys, pa.binary()), "value": pa.array(rows.values, pa.binary())}
        )
        self._unless_aborted(lambda: self._target().append(table, topic))

    def _writer(self, topic: str) -> Writer:
        if topic not in self._writers:
            self._writers[topic] = self._target().writer(topic, batch_bytes=_WRITER_BATCH_BYTES)
        return self._writers[topic]

    def _unless_aborted(self, write: Callable[[], object]) -> None:
        if self.abort_reason is not None:
            return
        try:
            write()
        except ABORTED as error:
            self.abort_reason = error
        except ClientError as error:
            # A plain ClientError may come from a writer whose transaction failed in the background.
            transaction = self._transaction()
            if type(error) is not ClientError or transaction is None:
                raise
            fate = lowlevel.fate(transaction, error)
            if not isinstance(fate, ABORTED):
                raise
            self.abort_reason = fate
