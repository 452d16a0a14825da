"""A lake of Parquet files in S3: every record of a topic, exactly once.

The layout is that of `parquet.py`, for the same readers. `loads.py` makes a load visible, and
completes the loads of runs that died.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from drumlin.spark.landing.rows.mode import Period
from drumlin.spark.landing.rows.record_files import WRITTEN, write_files
from drumlin.spark.landing.s3_account import S3Account
from drumlin.spark.landing.targets.columns import agreed_period
from drumlin.spark.landing.targets.lake_format import (
    ASIDE,
    BYTES,
    COLUMNS,
    Told,
    file_name,
    grown,
    load_name,
    no_offsets,
    position_told,
    told_by,
)
from drumlin.spark.landing.targets.s3_lake.folder import Found, S3Folder, task_folder
from drumlin.spark.landing.targets.s3_lake.loads import (
    Contents,
    batch_folder,
    complete,
    newest_load,
    offsets_path,
    small_loads,
    write_merged,
)
from drumlin.spark.landing.targets.target import (
    Added,
    Batch,
    LandingRefused,
    OtherRun,
    Position,
    StoreUnavailable,
)

#: Batches that no load names, and that got no file for this long, belong to dead runs.
_DEAD_AFTER: Final = timedelta(days=1)


class S3Lake:
    """A lake in S3, used by one run."""

    def __init__(self, url: str, account: S3Account, period: Period | None = None) -> None:
        self._url, self._period = url, period
        self._folder = S3Folder(url, account)
        self._newest = -1
        self._contents = Contents(None, {}, [])
        self._columns: dict[str, str] = {}
        self._is_checked = False

    def position(self, _partitions: Collection[int] = ()) -> Position | None:
        self._newest = newest_load(self._folder, self._newest)
        if self._newest < 0:
            self._columns = {}
            return None
        path = offsets_path(self._newest)
        try:
            found, position = position_told(f"{self._url}/{path}", self._folder.read(path))
        except FileNotFoundError as error:
            raise no_offsets(f"{self._url}/{path}", error) from None
        self._contents, self._columns = Contents.of(found), found.get(COLUMNS, BYTES)
        self._period = agreed_period(self._period, found.get("period"), self._url)
        return position

    def complete(self) -> None:
        if self._newest >= 0:
            complete(self._folder, self._newest, self._contents)

    def add(self, batch: Batch, position: Position) -> Added:
        self.complete()  # before `tidy` removes old files
        self._columns = grown(self._columns, batch.rows, self._url)
        aside = batch_folder()
        with self._removed_if_it_fails(aside):
            self._check_store(aside)
            folder = partial(task_folder, self._url, self._folder.account, aside)
            write = partial(write_files, folder, self._period)
            written = batch.map(write, WRITTEN).collect()
            files = {
                "/".join(filter(None, file_name(each, self._period))): each.path for each in written
            }
            batch.confirm()
            self._check_files(aside, files.values())
        columns = {COLUMNS: self._columns} if batch.rows.is_typed else {}
        self.show(Contents(aside, files, []), position, columns)
        self.tidy()
        return Added(sum(each.records for each in written), sum(each.size for each in written))

    def show(self, contents: Contents, position: Position, more: Told) -> None:
        """Publish these files as the next load.

        Raises:
            OtherRun: another run has published a load of this number.
        """
        number = self._newest + 1
        told = told_by(position, self._period, {**more, **contents.told()})
        # After an error the load may exist or not, so its files stay.
        if not self._folder.write_new(offsets_path(number), told):
            self._remove(contents.aside)
            raise OtherRun(f"another run has made {load_name(number)} of {self._url} meanwhile")
        complete(self._folder, number, contents)

    def compact(self) -> None:
        """Merge small loads into one, which changes no row."""
        position = self.position()
        self.complete()
        loads = small_loads(self._folder, self._newest)
        if position is None or not loads:
            return
        aside = batch_folder()
        # Another run may land or merge.
        with contextlib.suppress(OtherRun, FileNotFoundError):
            with self._removed_if_it_fails(aside):
                contents = write_merged(self._folder, loads, aside, load_name(self._newest + 1))
            columns = {} if self._columns is BYTES else {COLUMNS: self._columns}
            self.show(contents, position, columns)

    def tidy(self) -> None:
        """Remove the files of dead runs. The newest load must be complete."""
        before, batches = datetime.now(UTC) - _DEAD_AFTER, defaultdict[str, list[Found]](list)
        for each in self._folder.objects(ASIDE):
            batches["/".join(each.name.split("/", 2)[:2])].append(each)
        for found in batches.values():
            if max(each.modified for each in found) < before:
                self._folder.delete(each.name for each in found)

    def close(self) -> None:
        """Do nothing: no resource is held."""

    @contextlib.contextmanager
    def _removed_if_it_fails(self, aside: str) -> Iterator[None]:
        """Remove a batch's files if the block raises: no load names them yet."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(LandingRefused, StoreUnavailable):
                self._remove(aside)
            raise

    def _remove(self, aside: str | None) -> None:
        if aside is not None:
            self._folder.delete(each.name for each in self._folder.objects(aside))

    def _check_store(self, aside: str) -> None:
        """
        Raises:
            LandingRefused: the store ignores conditional writes, and overwrites objects.
        """
        name = f"{aside}/probe"
        if self._is_checked:
            return
        self._folder.write_new(name, b"first")
        if self._folder.write_new(name, b"second"):
            raise LandingRefused(
                f"{self._url}: this store overwrites objects although told not to (If-None-Match), "
                "so that of two runs both would land: take a store that knows conditional writes"
            )
        self._is_checked = True

    def _check_files(self, aside: str, paths: Collection[str]) -> None:
        """
        Raises:
            LandingRefused: files of this batch are gone.
        """
        there = {each.name for each in self._folder.objects(aside)}
        if missing := sorted(set(paths) - there):
            raise LandingRefused(
                f"{self._url}/{missing[0]} is not there any more, or never was: a lifecycle rule "
                "of the bucket may remove such files, or executors write to another store. Nothing "
                "of this batch was landed"
            )
