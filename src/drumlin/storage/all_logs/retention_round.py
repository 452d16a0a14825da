"""A round of retention: the expired segments of all logs are deleted, log by log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from drumlin.storage.files.doomed_files import DoomedFiles
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.turns import give_way
from drumlin.wire.error_codes import KafkaError

#: Called with a log.
Tell = Callable[[PartitionLog], object]


def tell_nobody(_: PartitionLog) -> None:
    """Ignore the log."""


async def delete_from_all(
    logs: Iterable[PartitionLog], now_ms: int, doomed: DoomedFiles, tell: Tell
) -> None:
    """Delete old segments of all `logs`; call `tell` for each whose log start offset advances.

    What is appended meanwhile is left for the next round: it may be as old, and without this limit
    a log that is being filled with old records would hold up the round.
    """
    for log in logs:
        if log.is_unserved:  # by whose rules?
            continue
        with contextlib.suppress(KafkaError):  # logged where the dir failed
            end_offset = log.log_end_offset
            while not log.is_deleted and log.segments.first.base_offset < end_offset:
                paths = _delete_some(log, now_ms, tell)
                if not paths:
                    break
                doomed.add(paths, log.config.file_delete_delay_ms)
                await give_way()
        await give_way()


def _delete_some(log: PartitionLog, now_ms: int, tell: Tell) -> list[str]:
    start_offset = log.log_start_offset
    try:
        return log.delete_old_segments(now_ms)
    finally:
        # Also if a file could not be renamed: the log start offset has advanced all the same.
        if log.log_start_offset != start_offset:
            tell(log)
