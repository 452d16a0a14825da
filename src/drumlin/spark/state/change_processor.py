"""Turns the records of a key into changes, with the key's last value in Spark's state store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

STATE_DDL: Final = "value binary"


class ChangeProcessor(StatefulProcessor):
    """Called by Spark for one key after the other, with all its records of a micro-batch.

    State is kept only for keys that have a value: it grows with the table, not with the log.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._value = handle.getValueState("value", STATE_DDL)

    def handleInitialState(self, key: Any, initialState: Row, timerValues: Any) -> None:  # noqa: ARG002, N802, N803
        """Store the value that a key has at the start of the stream."""
        self._value.update((initialState.value,))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """The changes that a key's records make. The records may come in any order."""
        state = self._value.get()
        before = None if state is None else state[0]
        for record in sorted(rows, key=lambda each: each.offset):
            if before is not None or record.value is not None:
                yield _change(record, before)
            before = record.value
        if before is None:
            self._value.clear()
        else:
            self._value.update((before,))

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _change(record: Row, before: bytes | None) -> Row:
    written = "insert" if before is None else "update"
    return Row(
        operation="delete" if record.value is None else written,
        key=record.key,
        before=before,
        after=record.value,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
    )
