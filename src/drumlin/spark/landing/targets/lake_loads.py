"""The loads of a lake of Parquet files, each exactly once, and merging many small ones into one.

A merged load has the number of the last load that it replaces; its `_offsets.json` has the number
of the first. Merging replaces several folders, and a file system renames one at a time. So a merge
is a load of its own, without records: its `_offsets.json` says which loads are replaced, and by
what. Like every load, it is published by one rename, which fails if another run was first. Any run
that finds a merge in the newest load completes it, before the next load is published.

The replaced loads are removed before the merged one appears: for a moment, a reader that lists the
folder by itself finds too few rows, but never a row twice. `visible_loads` is always exact.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from drumlin.spark.landing.rows.rows import aligned
from drumlin.spark.landing.rows.small_files import FEW, LARGE_BYTES, SMALL_BYTES
from drumlin.spark.landing.targets.lake_format import OFFSETS, load_name, load_number, merged_name
from drumlin.spark.landing.targets.target import LandingRefused

MERGE: Final = "merge"
_FIRST: Final = "first_load"
_REPLACED: Final = "replaced"
_ATTEMPTS: Final = 100
_PAUSE_S: Final = 0.05


class Load(NamedTuple):
    """A folder with rows."""

    #: The numbers of the first and the last load that it holds.
    first: int
    last: int
    path: str


class Merge(NamedTuple):
    """Loads to be replaced by a merged load, which is already written."""

    first: int
    last: int
    #: The folder, relative to the lake, with the merged load, and with a folder for replaced loads.
    aside: str


def load_numbers(files: fs.FileSystem, folder: str) -> list[int]:
    """The numbers of the loads in a lake, in order."""
    found = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    numbers = (load_number(each.base_name) for each in found)
    return sorted(number for number in numbers if number is not None)


def visible_loads(files: fs.FileSystem, folder: str) -> list[str]:
    """The paths of folders that together have every row once, even during a merge.

    Raises:
        LandingRefused: loads are missing.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(FileNotFoundError):
            if (loads := _whole(files, folder)) is not None:
                return [each.path for each in loads]
        time.sleep(_PAUSE_S)
    raise LandingRefused(f"loads are missing in {folder}")


def complete(files: fs.FileSystem, folder: str, merge: Merge) -> None:
    """Complete a merge. Other runs may do so at the same time, or may have done so long ago."""
    replaced = f"{folder}/{merge.aside}/{_REPLACED}"
    for number in range(merge.first, merge.last + 1):
        # Fails if the destination exists: so the merged load is not moved like a replaced one.
        with contextlib.suppress(OSError):
            files.move(f"{folder}/{load_name(number)}", f"{replaced}/{load_name(number)}")
    with contextlib.suppress(OSError):
        name = load_name(merge.last)
        files.move(f"{folder}/{merge.aside}/{name}", f"{folder}/{name}")
    # Renamed first, as deleting is not atomic: nothing may be moved into a half-deleted folder.
    with contextlib.suppress(OSError):
        files.move(f"{folder}/{merge.aside}", f"{folder}/{merge.aside}-done")
    with contextlib.suppress(OSError):
        files.delete_dir(f"{folder}/{merge.aside}-done")


def small_loads(files: fs.FileSystem, folder: str) -> list[Load]:
    """Consecutive small loads, except the newest, which has the position; empty if too few."""
    found, size_bytes = list[Load](), 0
    for load in (_whole(files, folder) or [])[:-1]:
        infos = files.get_file_info(fs.FileSelector(load.path, recursive=True))
        size = sum(each.size or 0 for each in infos)
        if size >= SMALL_BYTES or size_bytes + size > LARGE_BYTES:
            if len(found) >= FEW:
                break
            found, size_bytes = [], 0
        if size < SMALL_BYTES:
            found.append(load)
            size_bytes += size
    return found if len(found) >= FEW else []


def write_merged(files: fs.FileSystem, folder: str, loads: list[Load], aside: str) -> Merge:
    """Write the merged load of these loads below `aside`, a folder relative to the lake."""
    merge = Merge(loads[0].first, loads[-1].last, aside)
    _write_merged(files, f"{folder}/{aside}/{load_name(merge.last)}", loads)
    files.create_dir(f"{folder}/{aside}/{_REPLACED}")
    return merge


def merge_told(told: dict[str, Any]) -> Merge | None:
    """The merge in the content of an `_offsets.json`, if there is one."""
    return None if MERGE not in told else Merge(**told[MERGE])


def _whole(files: fs.FileSystem, folder: str) -> list[Load] | None:
    """The loads, in order; None if they are being moved at this moment.

    Raises:
        FileNotFoundError: they are being moved, too.
    """
    found = list[Load]()
    for number in load_numbers(files, folder):
        path, first = f"{folder}/{load_name(number)}", number
        if not found or number != found[-1].last + 1:
            first = offsets_of(files, path).get(_FIRST, number)
        found.append(Load(first, number, path))
    if not found:
        return found
    merge = merge_told(offsets_of(files, found[-1].path))
    if merge is not None and (merge.first, merge.last) not in [each[:2] for each in found]:
        path = f"{folder}/{merge.aside}/{load_name(merge.last)}"
        offsets_of(files, path)  # raises if it is no longer there
        others = [each for each in found if each.last < merge.first or each.first > merge.last]
        found = sorted([*others, Load(merge.first, merge.last, path)])
    # The lake's owner may have removed the oldest loads.
    is_whole = all(before.last + 1 == each.first for before, each in pairwise(found))
    return found if is_whole else None


def offsets_of(files: fs.FileSystem, load: str) -> dict[str, Any]:
    """The content of a load's `_offsets.json`."""
    with files.open_input_file(f"{load}/{OFFSETS}") as file:
        found: dict[str, Any] = json.loads(file.read())
    return found


def _write_merged(files: fs.FileSystem, path: str, loads: list[Load]) -> None:
    """Write a load with the rows of these loads: a file for each partition and period."""
    parts: dict[tuple[str, str], list[fs.FileInfo]] = defaultdict(list)
    for load in loads:
        for info in files.get_file_info(fs.FileSelector(load.path, recursive=True)):
            if info.is_file and info.extension == "parquet":
                within = info.path.rpartition(load.path)[2].strip("/").rpartition("/")[0]
                parts[within, info.base_name.partition("-")[0]].append(info)
    files.create_dir(path)
    for (within, partition), found in parts.items():
        into = f"{path}/{within}".rstrip("/")
        files.create_dir(into)
        name, offsets = merged_name(partition, [each.base_name for each in found])
        with files.open_output_stream(f"{into}/{name}") as stream:
            concatenate(files.open_input_file, [each.path for each in found], stream, offsets)
    told = {**offsets_of(files, loads[-1].path), _FIRST: loads[0].first}
    told.pop(MERGE, None)
    with files.open_output_stream(f"{path}/{OFFSETS}") as file:
        file.write(json.dumps(told).encode())


def concatenate(
    opened: Callable[[str], Any], paths: list[str], stream: Any, metadata: dict[str, str]
) -> None:
    """Write one file with the rows of these files, reading one of them at a time."""
    schemas = []
    for path in paths:
        with opened(path) as file:
            schemas.append(pq.read_schema(file))
    # A later load may have more columns.
    schema = pa.unify_schemas([each.remove_metadata() for each in schemas])
    with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for path in paths:
            with opened(path) as file:
                writer.write_table(aligned(pq.read_table(file), schema))
        writer.add_key_value_metadata(metadata)
