"""The loads of a lake in S3: committed by one object, then copied to their places.

    lake/load=00000007/_offsets.json          the commit: position, and which files of which batch
    lake/_aside/<batch>/<file>                the batch's files before that
    lake/load=00000007/0-…-….parquet          copied by the store after the commit

S3 can create an object only if it does not exist, but cannot rename one. So the commit is the
creation of `_offsets.json`, which is never overwritten or removed: no load number is used twice,
and of two runs one is refused, however late it is. The files of the newest load that are still in
`_aside` are copied by its own run, or by the next one: a load is complete before the next one is
committed. A reader that lists the folders finds only committed rows, and none twice, but too few
rows of the newest load, for a moment or until the next run.

A merge is also a load, which names the loads that it replaces. Their files are deleted before its
own are copied.
"""

from __future__ import annotations

import contextlib
import io
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

import pyarrow as pa

from drumlin.spark.landing.rows.small_files import worth_merging
from drumlin.spark.landing.targets.lake_format import (
    ASIDE,
    COLUMNS,
    FIRST,
    OFFSETS,
    Told,
    load_name,
    load_number,
    merged_name,
    position_told,
)
from drumlin.spark.landing.targets.lake_loads import concatenate
from drumlin.spark.landing.targets.s3_lake.folder import Found, S3Folder
from drumlin.spark.landing.targets.target import LandingRefused

_BATCH: Final = "batch"
_FILES: Final = "files"
_REPLACED: Final = "replaced"
_ATTEMPTS: Final = 100
_PAUSE_S: Final = 0.05


class Contents(NamedTuple):
    """The files of a load, and their paths until it is complete."""

    #: The batch's folder; None for a load that was copied from another lake, and is complete.
    aside: str | None
    #: The paths of the files until the load is complete, by their names in the load.
    files: dict[str, str]
    #: The numbers of the loads that this load replaces.
    replaced: list[int]

    @classmethod
    def of(cls, told: Told) -> Contents:
        return cls(told.get(_BATCH), told.get(_FILES, {}), told.get(_REPLACED, []))

    def told(self) -> Told:
        replaced = {_REPLACED: self.replaced} if self.replaced else {}
        return {_BATCH: self.aside, _FILES: self.files, **replaced}

    def sources(self, number: int) -> dict[str, str]:
        """The paths of the files until the load is complete, by their final paths."""
        return {f"{load_name(number)}/{name}": path for name, path in self.files.items()}


def batch_folder() -> str:
    """A folder for the files of a new batch, until they are copied to their places."""
    return f"{ASIDE}/{uuid.uuid4()}"


def offsets_path(number: int) -> str:
    return f"{load_name(number)}/{OFFSETS}"


def newest_load(folder: S3Folder, known: int = -1) -> int:
    """The number of the newest load; -1: there is none.

    Args:
        known: the number of a load that exists.
    """
    if known < 0:
        names: Iterable[str] = folder.folders()
    else:
        later = folder.objects(after=load_name(known))
        names = (each.name.partition("/")[0] for each in later)
    numbers = (load_number(name) for name in names)
    return max((number for number in numbers if number is not None), default=known)


def complete(folder: S3Folder, number: int, contents: Contents) -> None:
    """Copy the files of the newest load to their places. Other runs may do so at the same time.

    Raises:
        LandingRefused: files are missing.
    """
    if contents.aside is None:
        return
    left, sources = {each.name for each in folder.objects(contents.aside)}, contents.sources(number)
    if left.intersection(sources.values()):
        folder.delete(_replaced_files(folder, contents))
        # Another run may have copied them meanwhile, and may be deleting the originals.
        with contextlib.suppress(FileNotFoundError):
            folder.copy({new: old for new, old in sources.items() if old in left})
    missing = sources.keys() - {each.name for each in folder.objects(load_name(number))}
    if missing and newest_load(folder, number) == number:
        load = f"{folder.url}/{load_name(number)}"
        raise LandingRefused(
            f"{folder.url}/{min(missing)} is missing, and no longer in {contents.aside}. Nothing "
            f"was landed. Remove all of {load} to land its records again, if the log has them"
        )
    folder.delete(left)


def _replaced_files(folder: S3Folder, contents: Contents) -> list[str]:
    return [
        each.name
        for number in contents.replaced
        for each in folder.objects(load_name(number))
        if _is_file(each.name)
    ]


def visible_files(folder: S3Folder) -> tuple[list[str], bool]:
    """The files that together have every row of complete loads once, even during a merge.

    Returns:
        Their paths, and whether values are columns.

    Raises:
        LandingRefused: loads are added more quickly than they are listed; or the newest one has no
            valid `_offsets.json`.
    """
    for _ in range(_ATTEMPTS):
        newest = newest_load(folder)
        if newest < 0:
            return [], False
        path = offsets_path(newest)
        told, _ = position_told(f"{folder.url}/{path}", folder.read(path))
        found = _listed(folder, newest, Contents.of(told))
        if newest_load(folder, newest) == newest:  # otherwise listed loads may have been merged
            return found, COLUMNS in told
        time.sleep(_PAUSE_S)
    raise LandingRefused(f"loads come to {folder.url} more quickly than they are listed")


def _listed(folder: S3Folder, newest: int, contents: Contents) -> list[str]:
    # Listed first, as a file is in both places for a moment.
    aside = {each.name for each in folder.objects(contents.aside)} if contents.aside else set()
    found = [each.name for each in folder.objects(after=FIRST) if _is_file(each.name)]
    sources = contents.sources(newest)
    if not aside.intersection(sources.values()):  # it is complete
        return found
    left_out = {load_name(number) for number in (*contents.replaced, newest)}
    files = [name for name in found if name.partition("/")[0] not in left_out]
    if contents.replaced:
        files += [old if old in aside else new for new, old in sources.items()]
    return files


def small_loads(folder: S3Folder, newest: int) -> dict[int, list[str]]:
    """The files of small loads that are worth merging, by load, without the newest."""
    found: dict[int, list[Found]] = defaultdict(list)
    for each in folder.objects(after=FIRST):
        number = load_number(each.name.partition("/")[0])
        if number is not None and number != newest and _is_file(each.name):
            found[number].append(each)
    sizes = [(number, sum(each.size for each in files)) for number, files in found.items()]
    merged = next(worth_merging(sizes), [])
    return {number: [each.name for each in found[number]] for number in merged}


def write_merged(folder: S3Folder, loads: dict[int, list[str]], aside: str, load: str) -> Contents:
    """Write the files of the merged load of these loads: one for each partition and period.

    Args:
        aside: the folder that they are written to.
        load: the folder of the merged load.
    """
    parts: dict[tuple[str, str], list[str]] = defaultdict(list)
    for paths in loads.values():
        for path in paths:
            within, _, name = path.partition("/")[2].rpartition("/")
            parts[within, name.partition("-")[0]].append(path)
    files = dict[str, str]()
    for (within, partition), paths in parts.items():
        name, offsets = merged_name(partition, [each.rpartition("/")[2] for each in paths])
        data = io.BytesIO()
        concatenate(lambda path: pa.BufferReader(folder.read(path)), paths, data, offsets)
        name = f"{within}/{name}".strip("/")
        # The path has the partition columns; without the suffix no reader takes it for a file.
        files[name] = f"{aside}/{load}/{name.removesuffix('.parquet')}"
        folder.write(files[name], data.getvalue())
    return Contents(aside, files, list(loads))


def _is_file(name: str) -> bool:
    return name.endswith(".parquet")
