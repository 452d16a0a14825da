"""Files and folders to remove later, when their readers have had time to finish.

Their names already end in `.deleted` or `-delete`, so a restart removes those that are left.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from drumlin.clock import Clock
from drumlin.storage.files import folder_marker
from drumlin.storage.files.files import Files
from drumlin.storage.files.partition_names import DELETE_SUFFIX, FUTURE_SUFFIX

DELETED_SUFFIX: Final = ".deleted"

_logger = logging.getLogger(__name__)


def name_for_deleted(path: str, files: Files) -> str:
    """A free name for a deleted file, as files deleted earlier may still exist."""
    renamed, number = path + DELETED_SUFFIX, 1
    while files.exists(renamed):
        renamed, number = f"{path}.{number}{DELETED_SUFFIX}", number + 1
    return renamed


class DoomedFiles:
    """A queue by due time."""

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._due: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._due)

    def add(self, paths: Iterable[str], delay_ms: int) -> None:
        due = self._clock.monotonic() + delay_ms / 1000
        self._due += [(due, path) for path in paths]

    def remove_due(self) -> None:
        """Remove files that are due; those that can't be removed are retried later. Blocks."""
        now = self._clock.monotonic()
        for entry in [entry for entry in self._due if entry[0] <= now]:
            path = entry[1]
            try:
                if path.endswith(FUTURE_SUFFIX):  # first, so that a crash leaves no partial log
                    folder_marker.unmark(path, self._files)
                if path.endswith((DELETE_SUFFIX, FUTURE_SUFFIX)):
                    self._files.remove_directory(path)
                else:
                    self._files.remove(path)
            except OSError as error:
                _logger.warning("%s could not be removed: %s", path, error)
                continue
            self._due.remove(entry)
