"""A table in Parquet files, with columns `key`, `value` and `partition`, the row's source.

Changes are collected in memory, and stored about once a minute: the buckets that they change are
rewritten, and become visible together with the position, in one version of the folder. Changes that
were collected but not stored are read again from the log after a crash.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar

from drumlin.serving.parquet.folder import ParquetFolder
from drumlin.serving.parquet.rows import NewBuckets, bucket_of, changed, schema_of
from drumlin.serving.target import (
    Cell,
    Claim,
    Fenced,
    Position,
    TargetRefused,
    check_kept,
    check_owner,
)

#: The most bytes of collected changes in all partitions, and of a replacement's rows in memory.
_COLLECTED_BYTES: Final = 64 << 20
_ROW_BYTES: Final = 150
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Kept:
    """A claimed partition: its changes that are not stored yet, and their position."""

    partition: int
    term: int
    #: The state of the partition that this process stored last.
    stored: Mapping[str, Any]
    changes: dict[Cell, Cell | None] = field(default_factory=dict)
    position: Position | None = None
    size: int = 0
    #: The time of the first of these changes, by the monotonic clock.
    since_s: float = 0.0


def _naming_folder(
    method: Callable[Concatenate[ParquetTarget, P], T],
) -> Callable[Concatenate[ParquetTarget, P], T]:
    """Name the folder in errors that name no file, such as that of a full disk."""

    @functools.wraps(method)
    def named(self: ParquetTarget, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except OSError as error:
            if error.filename is not None:
                raise
            raise OSError(f"{self.path}: {error.strerror or error}") from error

    return named


class ParquetTarget:
    """One table. `kept` describes its topic, group and format: a table with others is refused."""

    def __init__(
        self,
        path: Path,
        kept: str,
        *,
        is_text: bool,
        buckets: int,
        every_s: float,
        keep_s: float,
        only_looks: bool = False,
    ) -> None:
        """`only_looks`: for `positions` only; nothing is created.

        Raises:
            TargetRefused: the folder has files of others, or another topic, group or format.
            OSError: the folder cannot be used.
        """
        self.path = path
        self._kept = kept
        self._schema = schema_of(is_text=is_text)
        self._buckets = buckets
        self._every_s = every_s
        self._folder = ParquetFolder(path, keep_s)
        self._claimed: dict[int, _Kept] = {}
        if not only_looks:
            self._folder.prepare()

    def positions(self, partitions: Collection[int]) -> dict[int, Position]:
        with contextlib.suppress(FileNotFoundError):
            newest = self._folder.newest()
            if newest is not None:
                check_owner(str(self.path), newest[1]["kept"], self._kept)
                stored = newest[1]["partitions"]
                found = {each: _position(stored.get(str(each))) for each in partitions}
                return {
                    each: at
                    for each, at in found.items()
                    if at is not None and self._folder.has(stored[str(each)]["files"].values())
                }
        return {}

    @_naming_folder
    def claim(self, partition: int) -> Claim:
        def take(state: dict[str, Any]) -> dict[str, Any]:
            state = state or {"kept": self._kept, "buckets": self._buckets, "partitions": {}}
            self._check(state)
            partitions: dict[str, Any] = {str(partition): _NOTHING, **state["partitions"]}
            for name, stored in partitions.items():
                if not self._folder.has(stored["files"].values()):
                    # Files were lost: the owner of the partition must not continue without them.
                    partitions[name] = _in_next_term({**stored, "files": {}, "offset": None})
            partitions[str(partition)] = _in_next_term(partitions[str(partition)])
            return _with(state, partitions)

        stored = self._folder.commit(take)["partitions"][str(partition)]
        self._claimed[partition] = _Kept(partition, stored["term"], stored)
        return Claim(stored["term"], _position(stored))

    @_naming_folder
    def apply(
        self, partition: int, term: int, changes: Mapping[Cell, Cell | None], position: Position
    ) -> None:
        kept = self._ours(partition, term)
        if kept.position is None:
            kept.since_s = time.monotonic()
        kept.changes |= changes
        kept.size += sum(len(k) + len(v or b"") + _ROW_BYTES for k, v in changes.items())
        kept.position = position
        self.flush(partition, term, now=False)
        while sum(each.size for each in self._claimed.values()) > _COLLECTED_BYTES:
            largest = max(self._claimed.values(), key=lambda each: each.size)
            with contextlib.suppress(Fenced):  # raised again when that partition is used next
                self._store(largest)

    @_naming_folder
    def flush(self, partition: int, term: int, *, now: bool) -> None:
        kept = self._ours(partition, term)
        if kept.position is not None and (now or time.monotonic() >= kept.since_s + self._every_s):
            self._store(kept)

    def replace(self, partition: int, term: int) -> ParquetReplacement:
        kept = self._ours(partition, term)
        kept.changes, kept.position, kept.size = {}, None, 0
        _, state, _ = self._stored(kept)

        def new_file(bucket: int) -> Path:
            return self._folder.new_file(f"{partition}-{bucket:02}")

        rows = NewBuckets(partition, state["buckets"], self._schema, new_file)
        return ParquetReplacement(self, kept, rows)

    @_naming_folder
    def add_aside(self, new: NewBuckets, rows: Iterable[tuple[Cell, Cell]]) -> None:
        """Add rows to a replacement."""
        new.add(rows, _COLLECTED_BYTES)

    @_naming_folder
    def take_aside(self, kept: _Kept, new: NewBuckets, position: Position) -> None:
        """Replace the partition's files with those of a replacement."""
        files = new.finish()
        self._commit(kept, {str(bucket): each.name for bucket, each in files.items()}, position)
        for each in files.values():
            each.unlink()

    def close(self) -> None:
        self._folder.close()

    # -- one version -----------------------------------------------------------------------

    def _store(self, kept: _Kept) -> None:
        """Write the buckets with changes, and make the next version."""
        assert kept.position is not None
        buckets: dict[int, dict[Cell, Cell | None]] = {}
        for key, value in kept.changes.items():
            buckets.setdefault(bucket_of(key, self._buckets), {})[key] = value
        while True:
            version, _, stored = self._stored(kept)
            files, written = dict(stored["files"]), []
            try:
                for bucket, changes in buckets.items():
                    before = files.pop(str(bucket), None)
                    old = None if before is None else version / before
                    new = self._folder.new_file(f"{kept.partition}-{bucket:02}")
                    if changed(old, changes, kept.partition, self._schema, new):
                        files[str(bucket)] = new.name
                        written.append(new)
                break
            except FileNotFoundError:
                if version.exists():
                    raise
                # Other processes have made many versions meanwhile.
        self._commit(kept, files, kept.position)
        for each in written:
            each.unlink()
        kept.changes, kept.position, kept.size = {}, None, 0

    def _stored(self, kept: _Kept) -> tuple[Path, dict[str, Any], dict[str, Any]]:
        """The newest version: its folder, its state, and the partition's part of the state.

        Raises:
            Fenced: another process has claimed the partition.
        """
        newest = self._folder.newest()
        stored = newest and newest[1]["partitions"].get(str(kept.partition))
        if not newest or not stored or stored != kept.stored:
            self._lose(kept.partition)
        return *newest, stored

    def _commit(self, kept: _Kept, files: dict[str, str], position: Position) -> None:
        def put(state: dict[str, Any]) -> dict[str, Any]:
            partitions = state.get("partitions", {})
            if partitions.get(str(kept.partition)) != kept.stored:
                self._lose(kept.partition)
            stored = {**kept.stored, **position._asdict(), "files": files}
            return _with(state, {**partitions, str(kept.partition): stored})

        kept.stored = self._folder.commit(put)["partitions"][str(kept.partition)]

    def _check(self, state: Mapping[str, Any]) -> None:
        check_kept(str(self.path), state["kept"], self._kept)
        if state["buckets"] != self._buckets:
            raise TargetRefused(
                f"{self.path} has {state['buckets']} buckets, not {self._buckets}: name another "
                "folder for a table with more or fewer"
            )

    def _ours(self, partition: int, term: int) -> _Kept:
        kept = self._claimed.get(partition)
        if kept is None or kept.term != term:
            self._lose(partition)
        return kept

    def _lose(self, partition: int) -> NoReturn:
        self._claimed.pop(partition, None)
        raise Fenced(f"{self.path}: another process has taken partition {partition}")


class ParquetReplacement:
    """A replacement, collected in files aside until it is complete."""

    def __init__(self, target: ParquetTarget, kept: _Kept, rows: NewBuckets) -> None:
        self._target = target
        self._kept = kept
        self._rows = rows

    def add(self, rows: Iterable[tuple[Cell, Cell]]) -> None:
        self._target.add_aside(self._rows, rows)

    def commit(self, position: Position) -> None:
        self._target.take_aside(self._kept, self._rows, position)


#: The state of a partition that no process has claimed.
_NOTHING: Final[Mapping[str, Any]] = {"term": 0, "offset": None, "files": {}}


def _in_next_term(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {**stored, "term": stored["term"] + 1}


def _with(state: dict[str, Any], partitions: dict[str, Any]) -> dict[str, Any]:
    files = [name for each in partitions.values() for name in each["files"].values()]
    return {**state, "partitions": partitions, "files": files}


def _position(stored: Mapping[str, Any] | None) -> Position | None:
    if stored is None or stored["offset"] is None:
        return None
    return Position(*(stored[name] for name in Position._fields))
