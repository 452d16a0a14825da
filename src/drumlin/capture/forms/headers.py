"""Headers with the source of a change, for records of any form. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from drumlin.capture.values.form import Around, Form
from drumlin.capture.values.kinds import Column
from drumlin.capture.values.record import Data, Headers, Op, Place, Record
from drumlin.capture.values.rows import Frame, RowFormat

_PREFIX: Final = "source."
_OP: Final = "op"
#: The parts of a place that only envelopes contain.
_LEFT_OUT: Final = ("db", "sequence")


class WithHeaders:
    """A form whose records have the headers `op`, and `source.NAME` for each part of the place."""

    is_bare = False

    def __init__(self, form: Form) -> None:
        self.name = form.name
        self.has_tombstones = form.has_tombstones
        self._form = form
        self._place: Place | None = None
        self._headers: dict[Op, Headers] = {}

    def rows_of(
        self,
        table: str,
        topic: str,
        columns: Sequence[Column],
        key: Sequence[str],
        schema: str = "",
    ) -> RowFormat:
        return self._form.rows_of(table, topic, columns, key, schema)

    def written(self, record: Record, place: Place) -> Iterable[Record]:
        headers = self._headers_of(record.op, place)
        return [Record(*each[:4], headers=headers) for each in self._form.written(record, place)]

    def around(self, topic: str, frame: Frame, op: Op, place: Place) -> Around:
        found = self._form.around(topic, frame, op, place)
        return found._replace(headers=self._headers_of(op, place))

    def read(self, key: bytes, value: bytes | None) -> tuple[Data, Data | None]:
        return self._form.read(key, value)

    def _headers_of(self, op: Op, place: Place) -> Headers:
        if place is not self._place:  # all changes of a transaction have the same object
            self._place, self._headers = place, {}
        headers = self._headers.get(op)
        if headers is None:
            found = {_OP: op.value}
            found |= {
                f"{_PREFIX}{name}": str(place[name]) for name in place if name not in _LEFT_OUT
            }
            headers = self._headers[op] = tuple(found.items())
        return headers
