"""The rows of a table in an SQLite file, which is deleted when it is no longer used.

The file need not survive the process, so SQLite neither syncs nor journals. A table that is opened
again is loaded again.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from drumlin.client.errors import ClientError, EqualKeys
from drumlin.client.table.rows import Row, Rows

if TYPE_CHECKING:
    import pyarrow as pa

_AT_A_TIME: Final = 1000
_CACHE_BYTES: Final = 8 << 20
_SETTINGS: Final = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    f"PRAGMA cache_size = -{_CACHE_BYTES >> 10}",
    "CREATE TABLE row (key BLOB PRIMARY KEY, value BLOB NOT NULL, part INTEGER) WITHOUT ROWID",
)


class DiskRows:
    """Rows on disk. Iteration is in key order, and may show changes made meanwhile."""

    def __init__(self, topic: str, folder: str | None) -> None:
        """`folder`: the file's folder; None: the system's folder for temporary files."""
        self._topic = topic
        self._lock = threading.Lock()
        made = tempfile.mkdtemp(prefix="drumlin-table-", dir=folder)
        self._remove = weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        self._database = sqlite3.connect(
            Path(made) / "rows", check_same_thread=False, isolation_level=None
        )
        for each in _SETTINGS:
            self._database.execute(each)
        self._count = 0
        self._is_closed = False

    @classmethod
    def of(cls, rows: Rows, topic: str, folder: str | None) -> DiskRows:
        """A copy of `rows` on disk."""
        made = cls(topic, folder)
        made._insert(rows)
        return made

    @property
    def nbytes(self) -> int:
        return _CACHE_BYTES

    def load(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        partition = batch.column("partition")[0].as_py()
        keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
        self._insert(zip(keys, values, repeat(partition), strict=False))

    def _insert(self, rows: Iterable[tuple[bytes, bytes, int]]) -> None:
        with self._lock:
            self._database.execute("BEGIN")
            for row in rows:
                try:
                    self._database.execute("INSERT INTO row VALUES (?, ?, ?)", row)
                except sqlite3.IntegrityError:
                    raise EqualKeys(self._topic, row[0]) from None
                self._count += 1
            self._database.execute("COMMIT")

    def put(self, key: bytes, value: bytes, partition: int) -> bytes | None:
        with self._lock:
            old = self._find(key)
            if old is not None and old[1] != partition:
                raise EqualKeys(self._topic, key)
            self._database.execute(
                "INSERT OR REPLACE INTO row VALUES (?, ?, ?)", (key, value, partition)
            )
            self._count += old is None
            return None if old is None else old[0]

    def remove(self, key: bytes, partition: int) -> bytes | None:
        with self._lock:
            old = self._find(key)
            if old is None or old[1] != partition:
                return None
            self._database.execute("DELETE FROM row WHERE key = ?", (key,))
            self._count -= 1
            return old[0]

    def find(self, key: bytes) -> bytes | None:
        with self._lock:
            found = self._find(key)
        return None if found is None else found[0]

    def _find(self, key: bytes) -> tuple[bytes, int] | None:
        self._check_open()
        found: tuple[bytes, int] | None = self._database.execute(
            "SELECT value, part FROM row WHERE key = ?", (key,)
        ).fetchone()
        return found

    def close(self) -> None:
        """Delete the file, at once: an exception may refer to these rows for long."""
        with self._lock:
            self._is_closed = True
            self._database.close()
        self._remove()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        after: bytes | int = -1  # SQLite sorts numbers before bytes
        while True:
            with self._lock:
                self._check_open()
                found = self._database.execute(
                    "SELECT key, value, part FROM row WHERE key > ? ORDER BY key LIMIT ?",
                    (after, _AT_A_TIME),
                ).fetchall()
            yield from map(Row._make, found)
            if len(found) < _AT_A_TIME:
                return
            after = found[-1][0]

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientError(f"this table of topic {self._topic!r} is closed")
