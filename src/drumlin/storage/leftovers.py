"""Files that the last server left half done, sorted out before a log is loaded.

segment-swap     a swap of segments that counts as done: completed (`swap_plan.py`)
.deleted .tmp    to be removed
.cleaned         a cleaning that was not completed: removed, the old segments stand
.index           without a .log of its name: removed, like any other index. Its records are lost,
                 or a crash interrupted their deletion
.swap            a completed cleaning of Apache Kafka: it replaces all segments in its range,
                 unless a `.cleaned` file beside it shows that its siblings are not complete
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Final

from drumlin.storage.batch_walk import walk_headers
from drumlin.storage.doomed_files import DELETED_SUFFIX
from drumlin.storage.files import TEMPORARY_SUFFIX, Files
from drumlin.storage.offset_index import OffsetIndex
from drumlin.storage.segment_files import LOG_SUFFIX
from drumlin.storage.swap_plan import CLEANED_SUFFIX, SWAP_SUFFIX, complete_swap
from drumlin.storage.time_index import TimeIndex
from drumlin.storage.transaction_index import TransactionIndex

_logger = logging.getLogger(__name__)

_INDEX_SUFFIXES: Final = (OffsetIndex.SUFFIX, TimeIndex.SUFFIX, TransactionIndex.SUFFIX)
_BASE_OFFSET: Final = re.compile(r"[0-9]{20}\.")
_DOOMED_SUFFIXES: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)


def sort_out_leftovers(path: str, files: Files) -> Sequence[str]:
    """Remove or complete what was left half done.

    Returns:
        The names of the files that make up the log.
    """
    complete_swap(path, files)
    names = _complete_leftovers(path, files)
    logs = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
    orphans = [
        name
        for name in names
        if name.endswith(_INDEX_SUFFIXES) and name.partition(".")[0] not in logs
    ]
    for name in orphans:
        _logger.warning("%s/%s is removed: there is no log of that name", path, name)
        files.remove(f"{path}/{name}")
    return [name for name in names if name not in orphans]


def _complete_leftovers(path: str, files: Files) -> Sequence[str]:
    names = files.list_directory(path)
    cleaned = [_base_offset(name) for name in names if name.endswith(CLEANED_SUFFIX)]
    first_incomplete = min(cleaned, default=None)
    swaps = []
    for name in names:
        if name.endswith(_DOOMED_SUFFIXES):
            files.remove(f"{path}/{name}")
        elif name.endswith(SWAP_SUFFIX):
            if first_incomplete is not None and _base_offset(name) >= first_incomplete:
                files.remove(f"{path}/{name}")
            else:
                swaps.append(name)
    if not swaps and not cleaned:
        return [name for name in names if not name.endswith(_DOOMED_SUFFIXES)]
    if swaps:
        _complete_swap(path, files, swaps)
    return files.list_directory(path)


def _complete_swap(path: str, files: Files, swaps: list[str]) -> None:
    """Remove the segments that the swapped ones replace, then give those their names."""
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if logs:
        first = min(_base_offset(name) for name in logs)
        end = max(_end_offset(f"{path}/{name}", files) for name in logs)
        for name in files.list_directory(path):
            is_replaced = _BASE_OFFSET.match(name) and not name.endswith((SWAP_SUFFIX, ".snapshot"))
            if is_replaced and first <= _base_offset(name) < end:
                files.remove(f"{path}/{name}")
        files.sync_directory(path)  # replaced segments must not come back after a crash
    # Logs first: an index renamed before its log would be removed as an orphan by the next start.
    for part in (logs, [name for name in swaps if name not in logs]):
        for name in part:
            files.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
        files.sync_directory(path)
    _logger.info("%s: completed a cleaning: %s", path, ", ".join(sorted(logs)))


def _base_offset(name: str) -> int:
    return int(name.partition(".")[0])


def _end_offset(path: str, files: Files) -> int:
    descriptor = files.open(path)
    try:
        end_offset = _base_offset(path.rpartition("/")[2])
        for _, header in walk_headers(files.read_at, descriptor, 0, files.size(descriptor)):
            end_offset = header.end_offset
        return end_offset
    finally:
        files.close(descriptor)
