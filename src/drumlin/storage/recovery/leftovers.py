"""Completing or removing unfinished files of the last server, before a log is loaded.

segment-swap     a segment swap that counts as done: completed (`swap_plan.py`)
.deleted .tmp    removed
.cleaned         an unfinished cleaning: removed, the old segments stay valid
.index           without a .log of the same name: removed, like any other index. Its records are
                 lost, or a crash interrupted their deletion
.swap            a completed cleaning of Apache Kafka: it replaces all segments in its range,
                 unless a `.cleaned` file shows that other segments of the swap are incomplete
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from drumlin.storage.files.doomed_files import DELETED_SUFFIX
from drumlin.storage.files.files import Files
from drumlin.storage.log.file_names import (
    INDEX_SUFFIXES,
    FileName,
    is_temporary,
    log_foreign_files,
    parse_file_name,
)
from drumlin.storage.log.swap_plan import CLEANED_SUFFIX, SWAP_SUFFIX, complete_swap
from drumlin.storage.producers.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from drumlin.storage.segment.batch_walk import walk_headers
from drumlin.storage.segment.segment_files import LOG_SUFFIX

_logger = logging.getLogger(__name__)


def sort_out_leftovers(path: str, files: Files) -> Sequence[str]:
    """Remove or complete unfinished files.

    Returns:
        The names of the remaining files in the folder, which may include some that are not ours.
    """
    complete_swap(path, files)
    names = _complete_leftovers(path, files)
    log_foreign_files(path, names)
    found = {name: parse_file_name(name) for name in names}
    logs = {each.offset for each in found.values() if each is not None and each.kind == LOG_SUFFIX}
    orphans = [
        name
        for name, each in found.items()
        if each is not None and each.kind in INDEX_SUFFIXES and each.offset not in logs
    ]
    for name in orphans:
        _logger.warning("%s/%s is removed: it has no log file", path, name)
        files.remove(f"{path}/{name}")
    return [name for name in names if name not in orphans]


def _complete_leftovers(path: str, files: Files) -> Sequence[str]:
    names = files.list_directory(path)
    found = {name: each for name in names if (each := parse_file_name(name)) is not None}
    cleaned = [each.offset for each in found.values() if each.state == CLEANED_SUFFIX]
    first_incomplete = min(cleaned, default=None)
    doomed = {name for name in names if is_temporary(name)}
    swaps = {}
    for name, each in found.items():
        if each.state in (DELETED_SUFFIX, CLEANED_SUFFIX):
            doomed.add(name)
        elif each.state == SWAP_SUFFIX:
            if first_incomplete is not None and each.offset >= first_incomplete:
                doomed.add(name)
            else:
                swaps[name] = each
    for name in doomed:
        files.remove(f"{path}/{name}")
    if not swaps and not cleaned:
        return [name for name in names if name not in doomed]
    if swaps:
        _complete_swap(path, files, swaps)
    return files.list_directory(path)


def _complete_swap(path: str, files: Files, swaps: Mapping[str, FileName]) -> None:
    """Remove the segments that the `.swap` files replace, then rename those."""
    logs = [name for name, each in swaps.items() if each.kind == LOG_SUFFIX]
    if logs:
        first = min(swaps[name].offset for name in logs)
        end = max(_end_offset(f"{path}/{name}", swaps[name].offset, files) for name in logs)
        for name in files.list_directory(path):
            each = parse_file_name(name)
            if each is None or each.state == SWAP_SUFFIX or each.kind == SNAPSHOT_SUFFIX:
                continue
            if first <= each.offset < end:
                files.remove(f"{path}/{name}")
        files.sync_directory(path)  # replaced segments must not come back after a crash
    # Logs first: the next start would remove an index that was renamed before its log.
    for part in (logs, [name for name in swaps if name not in logs]):
        for name in part:
            files.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
        files.sync_directory(path)
    _logger.info("%s: completed a cleaning: %s", path, ", ".join(sorted(logs)))


def _end_offset(path: str, end_offset: int, files: Files) -> int:
    descriptor = files.open(path)
    try:
        for _, header in walk_headers(files.read_at, descriptor, 0, files.size(descriptor)):
            end_offset = header.end_offset
        return end_offset
    finally:
        files.close(descriptor)
