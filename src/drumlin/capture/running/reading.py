"""Reads tables in chunks while the stream continues: added tables, and those to be reread.

A chunk is held until the stream has passed every transaction that the chunk shows. Rows that the
stream changes meanwhile are removed from the chunk, so that no older row is written after a newer
one. If a chunk's snapshot does not show every transaction already taken from the stream, the chunk
is discarded and read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.changes import Table
from drumlin.capture.database import catalog, chunks
from drumlin.capture.database.catalog import FoundTable
from drumlin.capture.database.chunks import Chunk, Seen, TableAltered
from drumlin.capture.errors import CaptureError
from drumlin.capture.log.kept_rows import TopicRows
from drumlin.capture.values.form import Form, PlainJson
from drumlin.capture.values.record import Data, Op, Record
from drumlin.capture.values.rows import RowFormat, TypesChanged
from drumlin.capture.values.types import Types

if TYPE_CHECKING:
    import psycopg

_RETRY_S: Final = 0.1
_FIRST_ROWS: Final = 1000
#: The number of transactions in `_taken` above which those that all new snapshots show are removed.
_TAKEN_MAX: Final = 10_000
#: Name for the keys of the topic that were in no chunk or change yet. No topic can have this name.
_UNSEEN: Final = "/unseen"


class Reading:
    """Reads the unread tables, one after the other.

    `rows` holds the rows of these tables' topics; the topics' writer updates it. `needed`: topics
    whose rows must be kept after their table was read.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        publication: str,
        tables: Iterable[Table],
        types: Types,
        rows: TopicRows,
        needed: Collection[str],
        should_stop: Callable[[], bool],
        form: Form | None = None,
    ) -> None:
        self._form: Form = PlainJson() if form is None else form
        self._connection, self._publication = connection, publication
        self._types, self._rows = types, rows
        self._needed = needed
        self._should_stop = should_stop
        self._left = list(tables)
        self._topics = {each.topic for each in self._left}
        #: The transactions open at the start: some of their changes may be missing in the stream.
        self._open_before = chunks.seen_now(connection).open if self._left else frozenset()
        self._taken: set[int] = set()
        self._xid = 0  # of the stream's current transaction
        self._found: FoundTable | None = None
        self._shape: RowFormat | None = None
        self._key_places: list[int] = []
        self._after: list[str] | None = None
        self._rows_max = _FIRST_ROWS
        self._chunk: Chunk | None = None
        self._held: dict[Data, Data] = {}
        self._has_missed = self._is_at_end = False
        self._try_at_s = 0.0
        self._row_count = 0

    # -- calls for the changes of the stream -------------------------------------------------

    def reads(self, topic: str) -> bool:
        return topic in self._topics

    def began(self, xid: int) -> None:
        """Record that a transaction has begun in the stream."""
        self._xid = xid
        if self._left:
            self._taken.add(xid)

    def changed(self, table: Table, key: Data) -> None:
        """Record that the stream has changed this row: the held chunk's row is obsolete."""
        if not self._left or table.topic != self._left[0].topic:
            return
        if table.oid == self._left[0].oid:
            self._held.pop(key, None)
            self._rows.put(_UNSEEN, key, None)
        else:  # a change of a dropped table with the same topic
            self._has_missed = True

    def held(self, topic: str, key: Data) -> Data | None:
        """The row of the key in the held chunk; None: the chunk does not have the key."""
        is_read_now = self._left and topic == self._left[0].topic
        return self._held.get(key) if is_read_now else None

    def is_sure(self, topic: str, key: Data) -> bool:
        """Whether the known row of a key is the one that the current change was applied to.

        The row must come from a chunk or a change. It is too new if the held chunk already shows
        the current change.
        """
        if not self._left or topic != self._left[0].topic:
            return False
        if self._chunk is not None and key in self._held:
            return not self._chunk.seen.shows(self._xid)
        return self._rows.get(_UNSEEN, key) is None

    def unsure(self, table: Table, key: Data) -> None:
        """Record that a row was written with values of an old row that may be outdated."""
        if self._left and table.topic == self._left[0].topic:
            self._rows.put(_UNSEEN, key, "")

    def missed(self, table: Table) -> None:
        """Record that a change could not be written: the whole table must be read again."""
        if self._left and table.topic == self._left[0].topic:
            self._has_missed = True

    def emptied(self, table: Table) -> None:
        """Record that the table was truncated: the rows in the held chunk are obsolete."""
        if self._left and table.oid == self._left[0].oid:
            self._held.clear()
        self.missed(table)

    # -- chunk by chunk ----------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Whether any tables are left to read."""
        return bool(self._left)

    @property
    def high_lsn(self) -> int | None:
        """The LSN that the stream must reach before the chunk is written; None: no chunk."""
        return None if self._chunk is None else self._chunk.high_lsn

    def read(self) -> None:
        """Read the next chunk, if possible now. Call it only between transactions.

        Raises:
            DatabaseLost, CaptureError: the table cannot be read.
            Stopped: the capture was asked to stop.
        """
        if (
            self._chunk is not None
            or self._is_at_end
            or not self._left
            or time.monotonic() < self._try_at_s
        ):
            return
        if self._open_before or len(self._taken) > _TAKEN_MAX:
            seen = chunks.seen_now(self._connection)
            self._open_before &= seen.open
            self._shows_all_taken(seen)
        if self._open_before or not self._is_begun():
            self._try_at_s = time.monotonic() + _RETRY_S
            return
        assert self._found is not None
        try:
            chunk = chunks.read_chunk(
                self._connection,
                self._publication,
                self._found,
                self._after,
                self._rows_max,
                self._should_stop,
            )
        except TableAltered:
            self._found = chunk = None
        if chunk is None or not self._shows_all_taken(chunk.seen):
            self._try_at_s = time.monotonic() + _RETRY_S
            return
        try:
            self._hold(chunk)
        except TypesChanged:
            self._types.add(catalog.types(self._connection))
            self._held, self._found = {}, None

    def _is_begun(self) -> bool:
        """Whether the table's columns are known; looks them up and begins the table, if not."""
        if self._found is not None:
            return True
        table = self._left[0]
        every = {each.oid: each for each in catalog.tables(self._connection, self._publication)}
        found = every.get(table.oid)
        if found is None:  # dropped: the topic keeps its rows
            self._is_at_end = True
            return False
        if (found.key, found.key_kinds) != (table.key, table.key_kinds):
            raise CaptureError(f"table {table.full_name}: its key has changed before it was read")
        if any(oid not in self._types for _, oid, _ in found.columns):
            self._types.add(catalog.types(self._connection))
        self._found = found
        columns = self._types.columns(found.columns)
        self._shape = self._form.rows_of(
            found.full_name, table.topic, columns, found.key, found.schema
        )
        names = [name for name, *_ in found.columns]
        self._key_places = [names.index(name) for name in found.key]
        self._begin_again()
        return True

    def _begin_again(self) -> None:
        self._after, self._has_missed, self._row_count = None, False, 0
        self._rows.copy_keys(self._left[0].topic, _UNSEEN)

    def _shows_all_taken(self, seen: Seen) -> bool:
        self._taken = {each for each in self._taken if not seen.shows(each)}
        return not self._taken

    def _hold(self, chunk: Chunk) -> None:
        assert self._shape is not None
        self._held = {}
        for row in chunk.rows:
            key = self._shape.key(row)
            assert key is not None, "a column of a key is never null"
            self._held[key] = self._shape.value(row)
            self._rows.put(_UNSEEN, key, None)
        if chunk.rows:
            last: Sequence[Any] = chunk.rows[-1]
            self._after = [last[place] for place in self._key_places]
        self._row_count += len(chunk.rows)
        self._rows_max = chunks.next_rows_max(chunk)
        self._chunk = chunk._replace(rows=[])

    def take(self) -> Iterator[Record]:
        """The records of the held chunk, once the stream has passed it."""
        chunk = self._chunk
        assert chunk is not None
        topic = self._left[0].topic
        held, self._held, self._chunk = self._held, {}, None
        for key, value in held.items():
            if self._rows.get(topic, key) != value:
                self._rows.put(topic, key, value)
                yield Record(topic, key, value, None, Op.READ)
        if not chunk.is_last:
            return
        if self._has_missed:
            self._found = None
            return
        for key in self._rows.keys(_UNSEEN):
            self._rows.put(topic, key, None)
            yield Record(topic, key, None, None, Op.DELETE)
        self._is_at_end = True

    def finished(self) -> tuple[Table, int] | None:
        """After `read` and `take`: the table that is complete now, and how many rows it had."""
        if not self._is_at_end:
            return None
        table, count = self._left.pop(0), self._row_count
        self._topics.discard(table.topic)
        self._found, self._is_at_end = None, False
        if table.topic not in self._needed:
            self._rows.forget(table.topic)
        return table, count
