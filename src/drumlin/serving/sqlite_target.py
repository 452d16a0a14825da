"""A table in an SQLite file, with columns `key`, `value`, and `partition`, the row's source.

Positions and terms are in the table `drumlin_positions` of the same file, so that one transaction
updates both. A replacement is collected in a separate table.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from drumlin.client.errors import EqualKeys
from drumlin.serving.target import (
    Cell,
    Claim,
    Fenced,
    Position,
    TargetRefused,
    check_kept,
    check_owner,
)

_BUSY_S: Final = 60.0
_POSITIONS: Final = """
CREATE TABLE IF NOT EXISTS drumlin_positions (
    name TEXT NOT NULL, partition INTEGER NOT NULL, kept TEXT NOT NULL, term INTEGER NOT NULL,
    topic_id TEXT, offset INTEGER, leader_epoch INTEGER, at_end TEXT,
    PRIMARY KEY (name, partition))
"""
_COLUMNS: Final = ("key", "value", "partition")


class SqliteTarget:
    """One table. `kept` describes its topic, group and format: a table with others is refused."""

    def __init__(
        self, path: str, name: str, topic: str, kept: str, *, only_looks: bool = False
    ) -> None:
        """`only_looks`: for `positions` only; nothing is created.

        Raises:
            TargetRefused: the table has other columns, or another topic, group or format.
            OSError: the file cannot be opened.
        """
        self._path = path
        self._name = name
        self._topic = topic
        self._kept = kept
        self._table = _quoted(name)
        self._where = f"{path}: table {name!r}"
        try:
            if only_looks:
                where = f"file:{quote(path)}?mode=ro"
                self._database = sqlite3.connect(where, timeout=_BUSY_S, uri=True)
                return
            self._database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
            self._prepare()
        except sqlite3.Error as error:
            raise OSError(f"{path}: {error}") from error

    def _prepare(self) -> None:
        run = self._database.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        with self._writing():
            run(_POSITIONS)
            columns = tuple(each[1] for each in run(f"PRAGMA table_info({self._table})"))
            if not columns:
                # The rows were lost with the table: the positions are reset.
                run("UPDATE drumlin_positions SET offset = NULL WHERE name = ?", (self._name,))
                run(
                    f"CREATE TABLE {self._table} (key PRIMARY KEY NOT NULL, value NOT NULL,"
                    " partition INTEGER NOT NULL) WITHOUT ROWID"
                )
            elif columns != _COLUMNS:
                raise TargetRefused(
                    f"{self._where} has the columns {', '.join(columns)}, not {', '.join(_COLUMNS)}"
                )
            self._check_kept(check_kept)

    def positions(self, partitions: Collection[int]) -> dict[int, Position]:
        run = self._database.execute
        try:
            if not run("SELECT 1 FROM sqlite_master WHERE name = 'drumlin_positions'").fetchall():
                return {}
            self._check_kept(check_owner)
            found = run(
                "SELECT partition, topic_id, offset, leader_epoch, at_end FROM drumlin_positions"
                " WHERE name = ? AND offset IS NOT NULL",
                (self._name,),
            )
            return {each[0]: Position(*each[1:]) for each in found if each[0] in partitions}
        except sqlite3.Error as error:
            raise OSError(f"{self._path}: {error}") from error

    def claim(self, partition: int) -> Claim:
        run, place = self._database.execute, (self._name, partition)
        with self._writing():
            run(
                "INSERT INTO drumlin_positions (name, partition, kept, term) VALUES (?, ?, ?, 1)"
                " ON CONFLICT (name, partition) DO UPDATE SET term = term + 1",
                (*place, self._kept),
            )
            term, *found = run(
                "SELECT term, topic_id, offset, leader_epoch, at_end FROM drumlin_positions"
                " WHERE name = ? AND partition = ?",
                place,
            ).fetchone()
            run(f"DROP TABLE IF EXISTS {self._side(partition, term - 1)}")
        return Claim(term, None if found[1] is None else Position(*found))

    def apply(
        self, partition: int, term: int, changes: Mapping[Cell, Cell | None], position: Position
    ) -> None:
        puts = [(key, value, partition) for key, value in changes.items() if value is not None]
        gone = [(key, partition) for key, value in changes.items() if value is None]
        with self._writing():
            self._move(partition, term, position)
            self._put(puts)
            self._database.executemany(
                f"DELETE FROM {self._table} WHERE key = ? AND partition = ?", gone
            )

    def replace(self, partition: int, term: int) -> SqliteReplacement:
        side = self._side(partition, term)
        with self._writing():
            self._check(partition, term)
            self._database.execute(f"DROP TABLE IF EXISTS {side}")
            self._database.execute(f"CREATE TABLE {side} (key NOT NULL, value NOT NULL)")
        return SqliteReplacement(self, partition, term)

    def add_aside(self, partition: int, term: int, rows: Iterable[tuple[Cell, Cell]]) -> None:
        """Add rows to a replacement."""
        with self._writing():
            self._check(partition, term)
            into = self._side(partition, term)
            self._database.executemany(f"INSERT INTO {into} VALUES (?, ?)", rows)

    def take_aside(self, partition: int, term: int, position: Position) -> None:
        """Replace the partition's rows in the table with those of the replacement."""
        side, run = self._side(partition, term), self._database.execute
        with self._writing():
            self._move(partition, term, position)
            run(f"DELETE FROM {self._table} WHERE partition = ?", (partition,))
            try:
                run(
                    f"INSERT INTO {self._table} SELECT key, value, ? FROM {side} ORDER BY key",
                    (partition,),
                )
            except sqlite3.IntegrityError:
                where = f"SELECT key FROM {side} WHERE key IN (SELECT key FROM {self._table})"
                self._refuse_key(run(f"{where} LIMIT 1").fetchone()[0])
            run(f"DROP TABLE {side}")

    def close(self) -> None:
        self._database.close()

    def _put(self, rows: list[tuple[Cell, Cell, int]]) -> None:
        done = self._database.executemany(
            f"INSERT INTO {self._table} VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE"
            " SET value = excluded.value WHERE partition = excluded.partition",
            rows,
        )
        if rows and done.rowcount != len(rows):
            of_another = f"SELECT 1 FROM {self._table} WHERE key = ? AND partition <> ?"
            for key, _, partition in rows:
                if self._database.execute(of_another, (key, partition)).fetchone():
                    self._refuse_key(key)

    def _refuse_key(self, key: Cell) -> None:
        raise EqualKeys(self._topic, key.encode() if isinstance(key, str) else key)

    def _check(self, partition: int, term: int) -> None:
        found = self._database.execute(
            "SELECT term FROM drumlin_positions WHERE name = ? AND partition = ?",
            (self._name, partition),
        ).fetchone()
        self._check_ours(partition, found is not None and found[0] == term)

    def _move(self, partition: int, term: int, position: Position) -> None:
        done = self._database.execute(
            "UPDATE drumlin_positions SET topic_id = ?, offset = ?, leader_epoch = ?, at_end = ?"
            " WHERE name = ? AND partition = ? AND term = ?",
            (*position, self._name, partition, term),
        )
        self._check_ours(partition, done.rowcount == 1)

    def _check_kept(self, check: Callable[[str, str, str], None]) -> None:
        asked = "SELECT kept FROM drumlin_positions WHERE name = ?"
        for (kept,) in self._database.execute(asked, (self._name,)):
            check(self._where, kept, self._kept)

    def _check_ours(self, partition: int, is_ours: bool) -> None:
        if not is_ours:
            raise Fenced(f"{self._where}: another process has taken partition {partition}")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, rolled back by any exception.

        Raises:
            OSError: the file is full, locked for too long, or was changed by another program.
        """
        try:
            self._database.execute("BEGIN IMMEDIATE")
            yield
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise OSError(f"{self._path}: {error}") from error
        finally:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")

    def _side(self, partition: int, term: int) -> str:
        return _quoted(f"drumlin_{self._name}_{partition}_{term}")


class SqliteReplacement:
    """A replacement, collected in a separate table until it is complete."""

    def __init__(self, target: SqliteTarget, partition: int, term: int) -> None:
        self._target = target
        self._partition = partition
        self._term = term

    def add(self, rows: Iterable[tuple[Cell, Cell]]) -> None:
        self._target.add_aside(self._partition, self._term, rows)

    def commit(self, position: Position) -> None:
        self._target.take_aside(self._partition, self._term, position)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
