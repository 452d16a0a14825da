"""The durable part of one log, and syncing the rest.

Owns the recovery point: everything below it is durable, so recovery starts there.
Appends and retention, on the broker's loop, only note the files to sync, and never block;
`sync` does the work, in any thread. The caller of `sync` must hold `lock`; so must a truncation.

Notes added while a `sync` runs are left to the next one. So notes are added and taken atomically
(by a dict operation, or by `SyncCount`), and a sync never clears a later note.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Final

from drumlin.storage.directory.log_directory import storage_error
from drumlin.storage.files.files import TEMPORARY_SUFFIX, Files, losses_allowed
from drumlin.storage.log import leader_epochs as epochs_file
from drumlin.storage.log.leader_epochs import LeaderEpochs
from drumlin.storage.producers.producer_snapshot import encode_snapshot, snapshot_path
from drumlin.storage.producers.producer_table import FrozenProducers
from drumlin.storage.segment.segment import Segment
from drumlin.storage.segment.segment_list import SegmentList
from drumlin.storage.segment.sync_count import SyncCount

_numbers: Final = itertools.count(1)


class Durability:
    """The durability of the log in one folder."""

    __slots__ = (
        "_files",
        "_folder",
        "_holds",
        "_is_given_up",
        "_names",
        "_number",
        "_path",
        "_renaming",
        "_sealed",
        "_snapshots",
        "lock",
        "recovery_point",
    )

    def __init__(self, path: str, files: Files) -> None:
        self.recovery_point = 0
        self._holds: dict[object, int] = {}  # limits of the recovery point, by truncation
        self.lock = threading.RLock()
        self._path = path
        self._files = files
        self._sealed: dict[Segment, None] = {}
        self._snapshots: dict[int, FrozenProducers] = {}
        self._names = SyncCount()  # changes of names in the folder
        self._folder: dict[str, None] = {}  # a file in the folder, while the folder itself is new
        self._number = next(_numbers)
        self._renaming = threading.Lock()  # held briefly, for a rename: the loop may wait for it
        self._is_given_up = False

    def note_sealed(self, segment: Segment) -> None:
        self._sealed[segment] = None

    def note_snapshot(self, offset: int, producers: FrozenProducers) -> None:
        """Note a producer snapshot, to be written before the recovery point passes `offset`."""
        self._snapshots[offset] = producers

    def has_noted_snapshot(self, offset: int) -> bool:
        return offset in self._snapshots

    def note_new_names(self) -> None:
        """Note that files in the folder were created or renamed."""
        self._names.note()

    def note_new_folder(self, file_path: str) -> None:
        """Note that the folder itself is new, and contains this file."""
        self._folder[file_path] = None
        self._names.note()

    def give_up(self) -> None:
        """Write no more files: the folder is deleted, or its log is loaded again."""
        with self._renaming:
            self._is_given_up = True

    def forget(self, gone: Sequence[Segment]) -> None:
        """Drop the notes of deleted segments and of the snapshots at their base offsets."""
        for segment in gone:
            self._sealed.pop(segment, None)
            self._snapshots.pop(segment.base_offset, None)

    def note_unsealed(self, segment: Segment) -> None:
        """Drop the note of a sealed segment that is active again."""
        self._sealed.pop(segment, None)

    def hold_at(self, offset: int, holder: object) -> None:
        """Keep the recovery point at or below `offset` until `release`, for a truncation.

        The caller must hold the lock.
        """
        self._holds[holder] = offset
        self.recovery_point = min(self.recovery_point, offset)

    def release(self, holder: object) -> None:
        """End a hold: the log was truncated, or will not be."""
        self._holds.pop(holder, None)

    def drop_from(self, offset: int) -> None:
        """Lower the recovery point and drop notes, after a truncation to `offset`."""
        self._snapshots = {at: each for at, each in self._snapshots.items() if at <= offset}

    def sync(self, segments: SegmentList, epochs: LeaderEpochs, end_offset: int) -> None:
        """Make everything below `end_offset` durable, then advance the recovery point.

        Files without changes are not synced. Nor are the active segment's sparse indexes: recovery
        rebuilds them, and any prefix of one is correct. Its transaction index is synced, as
        recovery does not search for aborted transactions below the recovery point.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the log was deleted or is being loaded again.
            OSError: the sync failed, and has to be repeated.
        """
        if not (end_offset or self._sealed or self._snapshots):
            return  # there has never been a record
        self.save_leader_epochs(epochs)
        self._save_snapshots()
        for segment in list(self._sealed):
            _unless_deleted(segment, segment.sync)
            self._sealed.pop(segment, None)
        for segment in segments.from_offset(self.recovery_point):
            _unless_deleted(segment, segment.sync_log)
        self._sync_folder()
        self._names.sync(lambda: self._files.sync_directory(self._path))
        end_offset = min((end_offset, *self._holds.values()))
        self.recovery_point = max(self.recovery_point, end_offset)

    def save_leader_epochs(self, epochs: LeaderEpochs) -> None:
        """Write the leader epochs durably, if they have changed."""
        epochs.unsaved.sync(lambda: self._replace(epochs_file.FILE_NAME, epochs.encode()))

    def remove(self, path: str) -> None:
        """Remove a file in the folder, unless the folder may belong to another log by now."""
        with self._renaming:
            if not self._is_given_up:
                self._files.remove(path)

    def _sync_folder(self) -> None:
        for file_path in list(self._folder):
            self._files.sync_file(file_path)
            self._files.sync_directory(self._path.rpartition("/")[0])
            self._folder.pop(file_path, None)

    def _save_snapshots(self) -> None:
        for offset in list(self._snapshots):
            producers = self._snapshots.get(offset)
            if producers is not None:  # None: forgotten meanwhile
                name = snapshot_path(self._path, offset).rpartition("/")[2]
                self._replace(name, encode_snapshot(producers))
                # Removed only now: if the note were put back after a failure, a concurrent
                # `forget` would be lost.
                self._snapshots.pop(offset, None)

    def _replace(self, name: str, content: bytes) -> None:
        """Replace a file in the folder durably, but never in the folder of another log.

        A topic that was deleted and created again has a folder of the same name. The temporary file
        may end up there, so it has a unique name, and is removed again.
        """
        path = f"{self._path}/{name}"
        temporary = f"{path}.{self._number}{TEMPORARY_SUFFIX}"
        self._files.write_file(temporary, content)
        with losses_allowed():
            self._files.sync_file(temporary)
        with self._renaming:
            if not self._is_given_up:
                self._files.rename(temporary, path)
        if self._is_given_up:
            self._files.remove(temporary)
            raise storage_error(f"{self._path} was deleted, or is loaded again")
        self._files.sync_directory(self._path)


def _unless_deleted(segment: Segment, sync: Callable[[], None]) -> None:
    try:
        sync()
    except FileNotFoundError:
        if not segment.is_deleted:
            raise
