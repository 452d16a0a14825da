"""A lake of Parquet files: every record of a topic, exactly once.

Each batch is a load: a folder with the records, and with the end offsets that the lake has reached:

    lake/load=00000000/0-00000000000000000000-00000000000000000750.parquet
                       1-00000000000000000000-00000000000000000730.parquet
                       _offsets.json
    lake/load=00000001/...

Tasks write files to a temporary folder. The driver renames the finished folder to its final name,
which makes records and offsets visible together. Of two concurrent runs, one finds that the name
exists, and fails.

A lake is a folder on a local disk or in HDFS. Object stores cannot rename a folder atomically: see
`s3.py`.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from drumlin.spark.landing.rows.mode import Period
from drumlin.spark.landing.rows.record_files import WRITTEN, ArrowFolder, write_files
from drumlin.spark.landing.targets.columns import agreed_period
from drumlin.spark.landing.targets.hdfs import check_answers, hdfs_files, naming_hdfs
from drumlin.spark.landing.targets.lake_format import (
    ASIDE,
    BYTES,
    COLUMNS,
    OFFSETS,
    Told,
    file_name,
    grown,
    load_name,
    no_offsets,
    position_told,
    told_by,
)
from drumlin.spark.landing.targets.lake_loads import (
    MERGE,
    Merge,
    complete,
    load_numbers,
    merge_told,
    offsets_of,
    small_loads,
    write_merged,
)
from drumlin.spark.landing.targets.target import Added, Batch, LandingRefused, OtherRun, Position

if TYPE_CHECKING:
    from pyspark.sql import Row

#: Temporary folders that were not modified for this long belong to dead runs: a load starts tasks
#: more often.
_DEAD_AFTER: Final = timedelta(days=1)


class Lake:
    """A lake, used by one run."""

    def __init__(self, url: str, period: Period | None = None) -> None:
        self._url, self._period = url, period
        self._files, self._folder = open_lake(url)
        self._newest = -1
        #: The merge that the newest load requests.
        self._merge: Merge | None = None
        self._columns: dict[str, str] = {}
        #: This run's folder for unfinished files.
        self._aside = f"{self._folder}/{ASIDE}/{uuid.uuid4()}"

    def position(self, _partitions: Collection[int] = ()) -> Position | None:
        check_answers(self._files, self._url)
        with naming_hdfs(self._url):
            return self._position()

    def _position(self) -> Position | None:
        self._newest = self._find_newest()
        if self._newest < 0:
            self._check_empty()
            self._columns = {}
            return None
        path = f"{self._folder}/{load_name(self._newest)}/{OFFSETS}"
        try:
            with self._files.open_input_file(path) as file:
                data = file.read()
        except FileNotFoundError as error:
            raise no_offsets(path, error) from None
        found, position = position_told(path, data)
        self._merge, self._columns = merge_told(found), found.get(COLUMNS, BYTES)
        self._period = agreed_period(self._period, found.get("period"), self._url)
        return position

    def complete(self) -> None:
        """Complete the merge that the newest load requests."""
        if self._merge is not None:
            with naming_hdfs(self._url):
                complete(self._files, self._folder, self._merge)

    def add(self, batch: Batch, position: Position) -> Added:
        self.complete()  # before `tidy` removes old folders
        self._columns = grown(self._columns, batch.rows, self._url)
        folder = partial(_folder, self._url, f"{self._aside}/")
        write = partial(_write, self._url, partial(write_files, folder, self._period))
        with naming_hdfs(self._url):
            try:
                self._files.create_dir(self._aside)
                written = batch.map(write, WRITTEN).collect()
                self.show(written, batch, position)
            finally:
                self.tidy()
        return Added(sum(each.records for each in written), sum(each.size for each in written))

    def show(self, written: Collection[Row], batch: Batch, position: Position) -> None:
        """Publish these files as the next load.

        Raises:
            OtherRun: another run has published a load of this number.
        """
        load = load_name(self._newest + 1)
        finished = f"{self._aside}/{load}"
        self._files.create_dir(finished)
        for each in written:
            folder, name = file_name(each, self._period)
            into = f"{finished}/{folder}".rstrip("/")
            self._files.create_dir(into)
            self._files.move(each.path, f"{into}/{name}")
        columns = {COLUMNS: self._columns} if batch.rows.is_typed else {}
        self._finish(batch, position, load, columns)

    def _finish(self, batch: Batch | None, position: Position, load: str, more: Told) -> None:
        """Write the `_offsets.json` of a finished folder, and publish it as the next load.

        Raises:
            OtherRun: another run has published a load of this number.
        """
        finished = f"{self._aside}/{load}"
        with self._files.open_output_stream(f"{finished}/{OFFSETS}") as file:
            file.write(told_by(position, self._period, more))
        if batch is not None:
            batch.confirm()
        self.complete()  # once another load is the newest, no run would complete it
        overtaken = OtherRun(f"another run has made {load} of {self._url} meanwhile")
        if self._find_newest() > self._newest:  # the name is free if that load was merged since
            raise overtaken
        try:
            self._files.move(finished, f"{self._folder}/{load}")
        except OSError as error:
            if self._find_newest() <= self._newest:
                raise
            if self._files.get_file_info(finished).type == fs.FileType.NotFound:
                return  # it was moved, and only the response was lost
            raise overtaken from error

    def compact(self) -> None:
        """Merge small loads into one, which changes no row."""
        with naming_hdfs(self._url):
            self._compact()

    def _compact(self) -> None:
        position = self.position()
        self.complete()
        loads = small_loads(self._files, self._folder)
        if position is None or not loads:
            return
        merging, load = f"{ASIDE}/{uuid.uuid4()}", load_name(self._newest + 1)
        try:
            merge = write_merged(self._files, self._folder, loads, merging)
            self._files.create_dir(f"{self._aside}/{load}")
            columns = {} if self._columns is BYTES else {COLUMNS: self._columns}
            self._finish(None, position, load, {MERGE: merge._asdict(), **columns})
        except (OtherRun, FileNotFoundError):  # another run has landed or merged
            with contextlib.suppress(FileNotFoundError):
                self._files.delete_dir(f"{self._folder}/{merging}")
        else:
            complete(self._files, self._folder, merge)
        finally:
            self.tidy()

    def tidy(self) -> None:
        """Remove unfinished files: those of this run, and those of dead runs."""
        left = fs.FileSelector(f"{self._folder}/{ASIDE}", allow_not_found=True)
        before = datetime.now(UTC) - _DEAD_AFTER
        found = self._files.get_file_info(left)
        dead = [each.path for each in found if each.mtime is not None and each.mtime < before]
        for path in (self._aside, *dead):
            with contextlib.suppress(FileNotFoundError):
                self._files.delete_dir(path)

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def _check_empty(self) -> None:
        """Check that the folder has no files of others, which readers would take for rows.

        Raises:
            LandingRefused: it has such files, and no load.
        """
        found = self._files.get_file_info(fs.FileSelector(self._folder, allow_not_found=True))
        others = [each.base_name for each in found if not each.base_name.startswith(("_", "."))]
        if others:
            raise LandingRefused(
                f"{self._folder} has files of another program: {min(others)!r}. Land into a folder "
                "of its own"
            )

    def _find_newest(self) -> int:
        return max(load_numbers(self._files, self._folder), default=-1)


def is_typed(files: fs.FileSystem, load: str) -> bool:
    """Whether values are columns in the lake of this load."""
    return COLUMNS in offsets_of(files, load)


def open_lake(url: str) -> tuple[fs.FileSystem, str]:
    """The lake's file system, and the lake's path in it."""
    parts = urlsplit(url)
    if parts.scheme == "hdfs":
        with naming_hdfs(url):
            return hdfs_files(parts), parts.path
    return fs.LocalFileSystem(), str(Path(url).absolute())


def _write(
    url: str,
    write: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.Table]],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.Table]:
    """Write a task's files, with errors that name the lake."""
    with naming_hdfs(url):
        yield from write(batches)


def _folder(url: str, prefix: str) -> ArrowFolder:
    return ArrowFolder(open_lake(url)[0], prefix)
