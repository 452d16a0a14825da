"""A store in an SQLite file, for states larger than memory and for faster restarts.

After each commit to the changelog, one SQLite transaction writes the changes and the checkpoint.
SQLite does not sync each of these transactions: after a power failure the file may lack the last
ones, as if the process had been killed before them. A damaged file is deleted and loaded again.
"""

from __future__ import annotations

import contextlib
import fcntl
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from drumlin.client.errors import ClientError
from drumlin.state.refused import StateRefused
from drumlin.state.stores import Checkpoint

_VERSION: Final = 2
_CACHE_BYTES: Final = 16 << 20
#: The most rows per query, and the total size of values at which a query ends sooner.
_AT_A_TIME: Final = 500
_BYTES_AT_A_TIME: Final = 4 << 20
_SETTINGS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    f"PRAGMA cache_size = -{_CACHE_BYTES >> 10}",
)
_TABLES: Final = (
    "CREATE TABLE row (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    """CREATE TABLE checkpoint (topic_id TEXT NOT NULL, offset INTEGER NOT NULL,
        since_ms INTEGER NOT NULL, position BLOB, last_offset INTEGER NOT NULL,
        last_digest BLOB NOT NULL, leader_epoch INTEGER NOT NULL)""",
    f"PRAGMA user_version = {_VERSION}",
)
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_GET: Final = "SELECT value FROM row WHERE key = ?"
_PUT: Final = "INSERT OR REPLACE INTO row VALUES (?, ?)"
_DELETE: Final = "DELETE FROM row WHERE key = ?"


class StoreFailed(ClientError):
    """A state's file could not be read or written. No data is lost: the changelog has it all."""


class DiskStore:
    """A store in a file, for use by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            StoreFailed: the file can neither be opened nor replaced.
        """
        self._path = path
        self.checkpoint: Checkpoint | None = None
        try:
            self._database = self._opened()
        except sqlite3.DatabaseError:
            self._remove()
            with self._telling():
                self._database = self._opened()

    def _opened(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        try:
            for each in _SETTINGS:
                database.execute(each)
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version == 0:
                _in_one_step(database, lambda: [database.execute(each) for each in _TABLES])
            elif version != _VERSION:
                raise sqlite3.DatabaseError(f"it has version {version}")
            found = database.execute("SELECT * FROM checkpoint").fetchone()
            self.checkpoint = None if found is None else Checkpoint(*found)
        except BaseException:
            database.close()
            raise
        return database

    # -- reading -------------------------------------------------------------------------

    def get(self, key: bytes, default: Any = None, /) -> Any:
        try:
            found = self._database.execute(_GET, (key,)).fetchone()
        except sqlite3.Error as error:
            raise self._failed(error) from error
        return default if found is None else found[0]

    def get_many(self, keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        left = iter(keys)
        with self._telling():
            while some := tuple(islice(left, _AT_A_TIME)):
                marks = ",".join("?" * len(some))
                found.update(
                    self._database.execute(
                        f"SELECT key, value FROM row WHERE key IN ({marks})",  # noqa: S608 - marks
                        some,
                    )
                )
        return found

    def __len__(self) -> int:
        with self._telling():
            count: int = self._database.execute("SELECT count(*) FROM row").fetchone()[0]
        return count

    def keys(self) -> Iterable[bytes]:
        return (key for key, _ in self.scan(b""))

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All keys that begin with `prefix`, with their values, in the order of the keys."""
        end = _end_of(prefix)
        at, compare = prefix, ">="
        while True:
            query = f"SELECT key, value FROM row WHERE key {compare} ?"  # noqa: S608 - >, >=
            given: tuple[bytes, ...] = (at,)
            if end is not None:
                query, given = f"{query} AND key < ?", (at, end)
            with self._telling():
                found, is_all = _some(self._database.execute(f"{query} ORDER BY key", given))
            yield from found
            if is_all:
                return
            at, compare = found[-1][0], ">"

    # -- changing ------------------------------------------------------------------------

    def apply(self, changes: Mapping[bytes, bytes | None], checkpoint: Checkpoint | None) -> None:
        database = self._database

        def change() -> None:
            database.executemany(_PUT, (each for each in changes.items() if each[1] is not None))
            database.executemany(
                _DELETE, ((key,) for key, value in changes.items() if value is None)
            )
            database.execute("DELETE FROM checkpoint")
            if checkpoint is not None:
                database.execute("INSERT INTO checkpoint VALUES (?, ?, ?, ?, ?, ?, ?)", checkpoint)

        with self._telling():
            _in_one_step(database, change)
        self.checkpoint = checkpoint

    def clear(self) -> None:
        self._database.close()
        self._remove()
        self.checkpoint = None
        with self._telling():
            self._database = self._opened()

    def close(self) -> None:
        self._database.close()

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: sqlite3.Error) -> StoreFailed:
        again = ""
        if getattr(error, "sqlite_errorcode", None) in _DAMAGED:
            self._remove()
            again = "; it was deleted, and the next run loads it again"
        return StoreFailed(f"state file {self._path}: {error}{again}")


class Folder:
    """The folder of a state's files, one per partition, used by one process at a time."""

    def __init__(self, folder: str, name: str) -> None:
        """
        Raises:
            StateRefused: another process uses the folder.
            StoreFailed: the folder cannot be created.
        """
        self._path = Path(folder) / name
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            self._lock = (self._path / "lock").open("a")
        except OSError as error:
            raise StoreFailed(f"state folder {self._path}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise StateRefused(
                f"folder {self._path} is used by another process: each process needs its own"
            ) from None

    def store(self, partition: int) -> DiskStore:
        """Open the store of a partition, with its previous contents."""
        return DiskStore(self._path / f"{partition}.sqlite")

    def offsets(self) -> dict[int, int]:
        """The changelog offset that each file has reached, by partition."""
        found = {}
        for path in self._path.glob("*.sqlite"):
            if path.stem.isdecimal():
                store = DiskStore(path)
                if store.checkpoint is not None:
                    found[int(path.stem)] = store.checkpoint.offset
                store.close()
        return found

    def close(self) -> None:
        """Unlock the folder for other processes."""
        self._lock.close()


def _some(cursor: sqlite3.Cursor) -> tuple[list[tuple[bytes, bytes]], bool]:
    """The next rows, at least one and as many as are small; and whether there are no more."""
    found: list[tuple[bytes, bytes]] = []
    size = 0
    with contextlib.closing(cursor):
        for row in cursor:
            found.append(row)
            size += len(row[1])
            if len(found) == _AT_A_TIME or size >= _BYTES_AT_A_TIME:
                return found, False
    return found, True


def _in_one_step(database: sqlite3.Connection, change: Any) -> None:
    database.execute("BEGIN IMMEDIATE")
    try:
        change()
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _end_of(prefix: bytes) -> bytes | None:
    """The first key after all keys that begin with `prefix`; None: there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
