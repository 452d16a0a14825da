"""What of one log would survive a power failure, and how the rest gets there.

Owns the recovery point: everything below it is on the device, so recovery reads from there on.
Appends and retention, on the broker's loop, only note what is to be synced, and never wait;
`sync` does it, in any thread. Whoever calls it, or cuts the log, holds `lock`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from drumlin.storage import leader_epochs as epochs_file
from drumlin.storage.files import Files
from drumlin.storage.leader_epochs import LeaderEpochs
from drumlin.storage.producer_snapshot import snapshot_path
from drumlin.storage.segment import Segment
from drumlin.storage.segment_list import SegmentList


class Durability:
    """The recovery point of the log in one folder."""

    __slots__ = (
        "_files",
        "_has_new_names",
        "_new_folder_file",
        "_path",
        "_sealed",
        "_snapshots",
        "lock",
        "recovery_point",
    )

    def __init__(self, path: str, files: Files) -> None:
        self.recovery_point = 0
        self.lock = threading.RLock()
        self._path = path
        self._files = files
        self._sealed: list[Segment] = []
        self._snapshots: dict[int, bytes] = {}
        self._has_new_names = True
        self._new_folder_file: str | None = None

    def note_sealed(self, segment: Segment) -> None:
        self._sealed.append(segment)

    def note_snapshot(self, offset: int, content: bytes) -> None:
        """Producer state at `offset`, to be written before the recovery point passes it."""
        self._snapshots[offset] = content

    def note_new_names(self) -> None:
        """Files were created or renamed in the folder."""
        self._has_new_names = True

    def note_new_folder(self, file_path: str) -> None:
        """The folder itself is new, and this file in it."""
        self._new_folder_file = file_path

    def forget(self, gone: Sequence[Segment]) -> None:
        """These segments, and the snapshots at their beginning, are deleted."""
        self._sealed = [segment for segment in self._sealed if segment not in gone]
        for segment in gone:
            self._snapshots.pop(segment.base_offset, None)

    def drop_from(self, offset: int) -> None:
        """The log is cut at `offset`."""
        self.recovery_point = min(self.recovery_point, offset)
        self._snapshots = {at: each for at, each in self._snapshots.items() if at <= offset}

    def sync(self, segments: SegmentList, epochs: LeaderEpochs, end_offset: int) -> None:
        """Make all below `end_offset` durable, then advance the recovery point.

        The active segment's indexes are left out: recovery fills them again, and any first part
        of a sparse index is still right.
        """
        if end_offset <= self.recovery_point and not self._sealed:
            return  # the sync of another caller has covered this one
        self._save_leader_epochs(epochs)
        self._save_snapshots()
        for segment in self._sealed.copy():
            _unless_deleted(segment, segment.sync)
            with contextlib.suppress(ValueError):  # forgotten meanwhile
                self._sealed.remove(segment)
        for segment in segments.from_offset(self.recovery_point):
            _unless_deleted(segment, segment.sync_log)
        self._sync_names()
        self.recovery_point = max(self.recovery_point, end_offset)

    def _sync_names(self) -> None:
        if self._new_folder_file is not None:
            self._files.sync_file(self._new_folder_file)
            self._files.sync_directory(self._path.rpartition("/")[0])
            self._new_folder_file = None
        if self._has_new_names:
            self._has_new_names = False  # before: a name that arrives meanwhile counts again
            try:
                self._files.sync_directory(self._path)
            except OSError:
                self._has_new_names = True
                raise

    def _save_leader_epochs(self, epochs: LeaderEpochs) -> None:
        if epochs.is_saved:
            return
        epochs.is_saved = True  # before: an epoch that begins meanwhile makes it false again
        try:
            self._files.replace_file(f"{self._path}/{epochs_file.FILE_NAME}", epochs.encode())
        except OSError:
            epochs.is_saved = False
            raise

    def _save_snapshots(self) -> None:
        for offset, content in list(self._snapshots.items()):
            self._files.replace_file(snapshot_path(self._path, offset), content)
            self._snapshots.pop(offset, None)


def _unless_deleted(segment: Segment, sync: Callable[[], None]) -> None:
    try:
        sync()
    except FileNotFoundError:
        if not segment.is_deleted:
            raise
