"""A round of retention: deletes the expired segments of all logs, log by log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from drumlin.storage.files.doomed_files import DoomedFiles
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.turns import give_way
from drumlin.wire.error_codes import KafkaError

#: Called with a log whose log start offset has advanced.
Notify = Callable[[PartitionLog], object]


def notify_nobody(_: PartitionLog) -> None:
    """Do nothing."""


async def delete_from_all(
    logs: Iterable[PartitionLog], now_ms: int, doomed: DoomedFiles, notify: Notify
) -> None:
    """Delete old segments of all `logs`; call `notify` for each whose log start offset advances.

    Records appended during the round are left to the next one: a log that is being filled with old
    records would never let the round end.
    """
    for log in logs:
        if log.is_unserved:  # its topic is unknown, and therefore its configuration
            continue
        with contextlib.suppress(KafkaError):  # logged where the log dir failed
            end_offset = log.log_end_offset
            while not log.is_deleted and log.segments.first.base_offset < end_offset:
                paths = _delete_some(log, now_ms, notify)
                if not paths:
                    break
                doomed.add(paths, log.config.file_delete_delay_ms)
                await give_way()
        await give_way()


def _delete_some(log: PartitionLog, now_ms: int, notify: Notify) -> list[str]:
    start_offset = log.log_start_offset
    try:
        return log.delete_old_segments(now_ms)
    finally:
        # Even if a file could not be renamed, the log start offset may have advanced.
        if log.log_start_offset != start_offset:
            notify(log)
