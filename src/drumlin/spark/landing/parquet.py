"""A lake of Parquet files: every record of a topic, exactly once.

Each batch is a load: a folder with the records, and with the end offsets that the lake has reached:

    lake/load=00000000/0-00000000000000000000-00000000000000000750.parquet
                       1-00000000000000000000-00000000000000000730.parquet
                       _offsets.json
    lake/load=00000001/...

Tasks write files to a temporary folder. The driver renames the finished folder to its final name,
which makes records and offsets visible together. Of two concurrent runs, one finds that the name
exists, and fails.

A lake is a folder on a local disk or in HDFS. Object stores cannot rename a folder atomically.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pyarrow import fs

from drumlin.spark.landing.record_files import COLUMNS, WRITTEN, ArrowFolder, write_files
from drumlin.spark.landing.target import Batch, LandingRefused, OtherRun, Position

if TYPE_CHECKING:
    from pyspark.sql import Row

#: Spark and Arrow ignore names that begin with an underscore.
_OFFSETS: Final = "_offsets.json"
_ASIDE: Final = "_aside"
#: Temporary folders that were not modified for this long belong to dead runs: a load starts tasks
#: more often.
_DEAD_AFTER: Final = timedelta(days=1)


class Lake:
    """A lake, used by one run."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._files, self._folder = open_lake(url)
        self._newest = -1
        #: This run's folder for unfinished files.
        self._aside = f"{self._folder}/{_ASIDE}/{uuid.uuid4()}"

    def position(self, _partitions: Collection[int] = ()) -> Position | None:
        self._newest = self._find_newest()
        if self._newest < 0:
            return None
        path = f"{self._folder}/{_load(self._newest)}/{_OFFSETS}"
        try:
            with self._files.open_input_file(path) as file:
                found: dict[str, Any] = json.loads(file.read())
            offsets = {int(number): int(each) for number, each in found["offsets"].items()}
            return Position(found["topic"], found["topic_id"], offsets)
        except (ValueError, KeyError, FileNotFoundError) as error:
            raise LandingRefused(f"{path} tells no offsets: {error!r}") from None

    def add(self, batch: Batch, position: Position) -> None:
        try:
            self._files.create_dir(self._aside)
            write = partial(write_files, partial(_folder, self._url, f"{self._aside}/"))
            self.show(batch.map(COLUMNS, write, WRITTEN).collect(), batch, position)
        finally:
            self.tidy()

    def show(self, written: Collection[Row], batch: Batch, position: Position) -> None:
        """Publish these files as the next load.

        Raises:
            OtherRun: another run has published a load of this number.
        """
        load = _load(self._newest + 1)
        finished = f"{self._aside}/{load}"
        self._files.create_dir(finished)
        for each in written:
            name = f"{each.partition}-{each.first_offset:020}-{each.end_offset:020}.parquet"
            self._files.move(each.path, f"{finished}/{name}")
        with self._files.open_output_stream(f"{finished}/{_OFFSETS}") as file:
            told = {"topic": position.topic, "topic_id": position.topic_id}
            file.write(json.dumps({**told, "offsets": position.offsets}).encode())
        batch.confirm()
        try:
            self._files.move(finished, f"{self._folder}/{load}")
        except OSError as error:
            if self._find_newest() <= self._newest:
                raise
            raise OtherRun(f"another run has made {load} of {self._url} meanwhile") from error

    def tidy(self) -> None:
        """Remove unfinished files: those of this run, and those of dead runs."""
        left = fs.FileSelector(f"{self._folder}/{_ASIDE}", allow_not_found=True)
        before = datetime.now(UTC) - _DEAD_AFTER
        found = self._files.get_file_info(left)
        dead = [each.path for each in found if each.mtime is not None and each.mtime < before]
        for path in (self._aside, *dead):
            with contextlib.suppress(FileNotFoundError):
                self._files.delete_dir(path)

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def _find_newest(self) -> int:
        entries = self._files.get_file_info(fs.FileSelector(self._folder, allow_not_found=True))
        names = [each.base_name for each in entries if each.base_name.startswith("load=")]
        return max((int(name.partition("=")[2]) for name in names), default=-1)


def open_lake(url: str) -> tuple[fs.FileSystem, str]:
    """The lake's file system, and the lake's path in it."""
    parts = urlsplit(url)
    if parts.scheme == "hdfs":
        from hdfs_native.fsspec import HdfsFileSystem  # needs no Java, even in tasks

        # Kept out of fsspec's cache: a forked process clears the cache, and would wait forever for
        # this client's threads, which do not exist in the fork.
        hadoop = HdfsFileSystem(parts.hostname, parts.port, skip_instance_cache=True)
        return fs.PyFileSystem(fs.FSSpecHandler(hadoop)), parts.path
    return fs.LocalFileSystem(), str(Path(url).absolute())


def _folder(url: str, prefix: str) -> ArrowFolder:
    return ArrowFolder(open_lake(url)[0], prefix)


def _load(number: int) -> str:
    return f"load={number:08}"
