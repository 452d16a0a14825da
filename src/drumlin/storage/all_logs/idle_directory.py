"""A log dir, or a broker's part of one, that no broker uses: for moving partitions in and out.

Owns the list of checkpoints that have to move with a partition's folder. Blocks; except for
checkpoints nothing is durable before `sync`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from typing import Final

from drumlin.storage.all_logs import held_files
from drumlin.storage.directory import (
    checkpoints,
    clean_marker,
    directory_lock,
    log_directory,
    meta_properties,
)
from drumlin.storage.directory.checkpoints import Checkpoint
from drumlin.storage.files.files import TEMPORARY_SUFFIX, Files
from drumlin.storage.files.partition_names import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    deleted_directory_name,
    directory_name,
    has_suffix,
    parse_directory_name,
    stray_directory_name,
)

_OFFSETS: Final = (
    checkpoints.RECOVERY_POINT,
    checkpoints.HIGH_WATERMARK,
    checkpoints.LOG_START_OFFSET,
    checkpoints.CLEANER_OFFSET,
    checkpoints.KEPT_DELETIONS,
    checkpoints.EXACT_STATES,
)
#: Topic and partition number.
Partition = tuple[str, int]
_OWN_FILES: Final = frozenset(
    {
        *_OFFSETS,
        checkpoints.DELETE_HORIZON,
        checkpoints.UNCLEAN,
        clean_marker.FILE_NAME,
        directory_lock.FILE_NAME,
        meta_properties.FILE_NAME,
        log_directory.PROBE_NAME,
        held_files.FOLDER,
    }
)


class IdleDirectory:
    """A log dir, or a broker's part of one, that no broker uses.

    Raises:
        OSError: the directory cannot be read.
    """

    def __init__(self, path: str, files: Files) -> None:
        self.path = path
        self._files = files
        self._checkpoints: dict[str, Checkpoint] = {}
        names = files.list_directory(path)
        self.partitions = {each for each in map(parse_directory_name, names) if each is not None}
        marker = clean_marker.read_clean_marker(path, files)
        self.was_clean = marker is not None or not self.partitions

    def folder(self, partition: Partition) -> str:
        return f"{self.path}/{directory_name(*partition)}"

    def is_clean(self, partition: Partition) -> bool:
        """Whether a partition's log is known to have been closed cleanly."""
        return self.was_clean and self._checkpoint(checkpoints.UNCLEAN).get(partition) is None

    def expect(self, source: IdleDirectory, partitions: Iterable[Partition]) -> None:
        """Copy the checkpoints of partitions that are about to move here.

        Raises:
            OSError: a checkpoint cannot be written.
        """
        keys = set(partitions)
        for name in _OFFSETS:
            noted = source._checkpoint(name).read()
            self._note(name, keys, {key: noted[key] for key in keys & noted.keys()})
        unclean = keys
        if source.was_clean:
            unclean = keys & source._checkpoint(checkpoints.UNCLEAN).read().keys()
        self._note(checkpoints.UNCLEAN, keys, dict.fromkeys(unclean, 0))
        if self.was_clean and not self.partitions:
            # Marked as clean: each partition that moves here has its own note on whether its log is
            # clean.
            marker = clean_marker.encode_clean_marker(clean_marker.NO_EPOCH)
            self._files.replace_file(f"{self.path}/{clean_marker.FILE_NAME}", marker)

    def take(self, source: IdleDirectory, partition: Partition) -> None:
        """Move a partition's folder here; an existing folder of the partition is kept as stray.

        Raises:
            OSError: the folder cannot be renamed.
        """
        if partition in self.partitions:
            aside = f"{self.path}/{stray_directory_name(*partition)}"
            self._files.rename(self.folder(partition), aside)
        self._files.rename(source.folder(partition), self.folder(partition))
        self.partitions.add(partition)
        source.partitions.discard(partition)

    def drop(self, partition: Partition) -> None:
        """Mark a partition's folder to be removed by the next broker that starts here.

        Raises:
            OSError: the folder cannot be renamed.
        """
        path = f"{self.path}/{deleted_directory_name(*partition)}"
        self._files.rename(self.folder(partition), path)
        self.partitions.discard(partition)

    def sync(self) -> None:
        """Make all moves durable."""
        self._files.sync_directory(self.path)

    def remove(self) -> bool:
        """Remove the directory, unless it contains a partition or foreign files.

        Returns:
            Whether it was removed.

        Raises:
            OSError: the directory cannot be removed.
        """
        names = self._files.list_directory(self.path)
        if not all(map(_is_dispensable, names)):
            return False
        shutil.rmtree(self.path)
        return True

    def _note(self, name: str, keys: set[Partition], offsets: Mapping[Partition, int]) -> None:
        """Replace the entries of the partitions `keys` in a checkpoint by these offsets."""
        checkpoint = self._checkpoint(name)
        others = {key: offset for key, offset in checkpoint.read().items() if key not in keys}
        checkpoint.write(lambda: others | dict(offsets))

    def _checkpoint(self, name: str) -> Checkpoint:
        if name not in self._checkpoints:
            self._checkpoints[name] = Checkpoint(self.path, name, self._files)
        return self._checkpoints[name]


def _is_dispensable(name: str) -> bool:
    """Whether a file or folder belongs to a broker, and is useless without partitions."""
    is_file = name.removesuffix(TEMPORARY_SUFFIX) in _OWN_FILES
    return is_file or has_suffix(name, DELETE_SUFFIX) or has_suffix(name, FUTURE_SUFFIX)
