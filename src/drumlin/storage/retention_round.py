"""A round of retention: each log in its turn lets go of what it need not keep any more."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from drumlin.storage.doomed_files import DoomedFiles
from drumlin.storage.partition_log import PartitionLog
from drumlin.turns import Work
from drumlin.wire.errors import KafkaError

#: Is told of a log.
Tell = Callable[[PartitionLog], object]


def tell_nobody(_: PartitionLog) -> None:
    """For who does not want to know."""


def delete_from_all(
    logs: Iterable[PartitionLog], now_ms: int, doomed: DoomedFiles, tell: Tell
) -> Work[None]:
    """Let go of old segments in all `logs`; `tell` is told of those that begin later now.

    What is appended meanwhile is left for the next time: it may be as old, and there may be more
    and more of it.
    """
    for log in logs:
        with contextlib.suppress(KafkaError):  # said where the dir failed
            end_offset = log.log_end_offset
            while not log.is_deleted and log.segments.first.base_offset < end_offset:
                paths = _delete_some(log, now_ms, tell)
                if not paths:
                    break
                doomed.add(paths, log.config.file_delete_delay_ms)
                yield
        yield


def _delete_some(log: PartitionLog, now_ms: int, tell: Tell) -> list[str]:
    start_offset = log.log_start_offset
    try:
        return log.delete_old_segments(now_ms)
    finally:
        # Also where a file could not be renamed: the log begins later all the same.
        if log.log_start_offset != start_offset:
            tell(log)
