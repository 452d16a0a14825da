"""Moves partitions between the brokers of a machine when their number has changed.

It is done before any of them runs. A log stays in its log dir: its folder is renamed into, or out
of, the folder that a broker has there. Checkpoints are copied first, folders are renamed next, and
then the metadata says so. Whatever a crash leaves undone, the next start does: it looks where the
folders are. Nothing is removed but logs that a copy in sync makes superfluous, and deleted topics.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from drumlin.broker.machine.locks import Locks
from drumlin.broker.machine.placing import Placement, place
from drumlin.broker.startup import StartFailed
from drumlin.config.machine_folders import FOLDER, folder_of
from drumlin.metadata import database
from drumlin.metadata.database import Database, UnreadableMetadata
from drumlin.metadata.image import PartitionId
from drumlin.storage.files import Files
from drumlin.storage.meta_properties import read_meta_properties
from drumlin.storage.partition_metadata import read_topic_id
from drumlin.storage.resting_directory import Partition, RestingDirectory

if TYPE_CHECKING:
    from drumlin.config.broker import BrokerConfig
    from drumlin.metadata.image import ClusterImage

_log = logging.getLogger(__name__)

#: In the metadata: the brokers for which partitions were placed last.
_PLACED: Final = "brokers_of_machine"


def move_partitions(config: BrokerConfig, brokers: int) -> None:
    """Have the folders of partitions, and the metadata, fit for so many brokers. Blocks.

    Nobody else uses the log dirs: of those that these brokers have, the caller has the locks.

    Raises:
        StartFailed: with one line that says why.
    """
    paths = [str(Path(path).absolute()) for path in config.log_dirs]
    file = Path(paths[0], database.FILE_NAME)
    if not file.exists() or not _is_of(config.node_id, paths):
        return  # there is nothing, or whoever opens it says what is wrong
    node_ids = range(config.node_id, config.node_id + brokers)
    try:
        with closing(Database(file)) as opened:
            placed = json.loads(opened.value(_PLACED) or f"[{config.node_id}]")
            folders = _Folders(config.node_id, paths)
            gone = {each: folders.paths(each) for each in folders.node_ids() - set(node_ids)}
            with Locks(gone):
                if placed != list(node_ids):
                    _Move(opened, folders, node_ids).run()
                folders.remove_empty(gone, opened.deleted_topics())
    except UnreadableMetadata:
        return  # as above
    except (OSError, sqlite3.Error) as error:
        raise StartFailed(f"partitions cannot be moved between brokers: {error}") from error


def has_folders(config: BrokerConfig) -> bool:
    """Whether there are folders of more than one broker, as far as the log dirs can be read."""
    return any(Path(path, FOLDER).is_dir() for path in config.log_dirs)


def is_empty(config: BrokerConfig) -> bool:
    """Whether there are no logs, as far as the log dirs can be read. Blocks."""
    for path in config.log_dirs:
        with suppress(OSError):
            if RestingDirectory(path, Files()).partitions:
                return False
    return True


def note_placed(node_ids: Sequence[int]) -> database.Statement:
    """Note for which brokers the partitions are placed."""
    return database.put_value(_PLACED, json.dumps(list(node_ids)))


def _is_of(node_id: int, paths: Sequence[str]) -> bool:
    """Whether the log dirs are those of the broker that is the first one now."""
    for path in paths:
        with suppress(OSError, ValueError):
            known = read_meta_properties(path, Files())
            if known is not None and known.node_id not in (None, node_id):
                return False
    return True


class _Folders:
    """The folders of all brokers in all log dirs, as far as they can be read."""

    def __init__(self, first: int, log_dirs: Sequence[str]) -> None:
        self._first = first
        self._files = Files()
        self._log_dirs = log_dirs
        self._found: dict[tuple[str, int], RestingDirectory] = {}
        #: Whether one cannot be read: there may be more in it.
        self.is_partial = False
        for log_dir in log_dirs:
            try:
                self._found[log_dir, first] = RestingDirectory(log_dir, self._files)
                for node_id in _folders_in(log_dir):
                    path = folder_of(log_dir, node_id - first, node_id)
                    self._found[log_dir, node_id] = RestingDirectory(path, self._files)
            except OSError as error:
                self.is_partial = True
                _log.warning("%s is left alone: %s", log_dir, error)

    def node_ids(self) -> set[int]:
        return {node_id for _, node_id in self._found}

    def paths(self, node_id: int) -> list[str]:
        return [each.path for (_, owner), each in self._found.items() if owner == node_id]

    def unclean(self) -> set[int]:
        """The brokers of which logs may lack records."""
        return {node_id for (_, node_id), each in self._found.items() if not each.was_clean}

    def of(self, partition: Partition) -> dict[int, str]:
        """Brokers that have a folder of the partition, each with the log dir."""
        return {
            node_id: log_dir
            for (log_dir, node_id), each in self._found.items()
            if partition in each.partitions
        }

    def at(self, log_dir: str, node_id: int) -> RestingDirectory:
        """What a broker has there; it is made where there is nothing."""
        found = self._found.get((log_dir, node_id))
        if found is None:
            path = folder_of(log_dir, node_id - self._first, node_id)
            self._files.make_directory(path)
            found = self._found[log_dir, node_id] = RestingDirectory(path, self._files)
        return found

    def sync(self) -> None:
        for each in self._found.values():
            each.sync()
        for log_dir in self._log_dirs:
            for path in (f"{log_dir}/{FOLDER}", log_dir):
                with suppress(FileNotFoundError):
                    self._files.sync_directory(path)

    def remove_empty(self, node_ids: Collection[int], deleted: Collection[UUID]) -> None:
        """Remove the folders of brokers that are no more, unless something is left in them.

        What is left of topics that were deleted goes with them.
        """
        for (log_dir, node_id), each in self._found.items():
            if node_id in node_ids:
                for partition in list(each.partitions):
                    if read_topic_id(each.folder(partition), self._files) in deleted:
                        each.drop(partition)
                if not each.remove():
                    _log.warning("%s is kept: there are logs in it that no topic has", each.path)
                with suppress(OSError):
                    Path(log_dir, FOLDER).rmdir()


def _folders_in(log_dir: str) -> Iterator[int]:
    try:
        names = [each.name for each in Path(log_dir, FOLDER).iterdir()]
    except FileNotFoundError:
        return
    yield from (int(name) for name in names if name.isascii() and name.isdecimal())


class _Move:
    """One change of the number of brokers."""

    def __init__(self, opened: Database, folders: _Folders, node_ids: Sequence[int]) -> None:
        self._opened = opened
        self._folders = folders
        self._node_ids = node_ids
        #: Source and target of folders in a log dir.
        self._moves: dict[tuple[str, int, int], list[Partition]] = {}
        self._drops: list[tuple[str, int, Partition]] = []

    def run(self) -> None:
        """
        Raises:
            OSError, sqlite3.Error: it has to be tried again.
        """
        image = self._opened.load("")
        placements = place(image.topics.values(), self._node_ids, self._folders.unclean())
        missing = self._plan(image, placements)
        # A start with the number before this one must not take the folders to be where they were.
        self._opened.execute_durably([note_placed(())])
        self._move()
        self._folders.sync()
        statements = [
            database.put_state(partition.topic_id, placement.state)
            for partition, placement in placements.items()
            if partition not in missing
        ]
        statements.append(database.forget_broker_epochs())
        if not missing:
            statements.append(note_placed(self._node_ids))
        self._opened.execute_durably(statements)
        count = sum(map(len, self._moves.values()))
        _log.info("%d partitions were moved, as there are %d brokers", count, len(self._node_ids))

    def _plan(
        self, image: ClusterImage, placements: Mapping[PartitionId, Placement]
    ) -> set[PartitionId]:
        """Plan what is to be renamed; partitions of which the folder may be elsewhere."""
        missing = set()
        for topic in image.topics.values():
            for state in topic.partitions:
                partition = PartitionId(topic.topic_id, state.index)
                placement = placements.get(partition, Placement(state))
                is_whole = self._plan_one((topic.name, state.index), placement)
                if not is_whole and partition in placements and self._folders.is_partial:
                    _log.warning("%s-%d is not moved: it is not found", topic.name, state.index)
                    missing.add(partition)
        return missing

    def _plan_one(self, partition: Partition, placement: Placement) -> bool:
        """Whether all folders are there that are to be."""
        found = self._folders.of(partition)
        sources = {target: source for source, target in placement.moves}
        for node_id in placement.dropped:
            # One that has come already takes the place of what was dropped.
            if node_id in found and sources.get(node_id, node_id) in found:
                self._drops.append((found.pop(node_id), node_id, partition))
        is_whole = True
        left = [each for each in found if each not in placement.state.replicas]
        for target in placement.state.replicas:
            if target in found:
                continue
            source = sources.get(target)
            if source not in left and not self._folders.is_partial:
                source = next(iter(left), None)  # where an earlier start has moved it to
            if source not in left:
                is_whole = False
                continue
            left.remove(source)
            self._moves.setdefault((found[source], source, target), []).append(partition)
        return is_whole

    def _move(self) -> None:
        for log_dir, node_id, partition in self._drops:
            self._folders.at(log_dir, node_id).drop(partition)
        for (log_dir, source, target), partitions in self._moves.items():
            come_from = self._folders.at(log_dir, source)
            self._folders.at(log_dir, target).expect(come_from, partitions)
            for partition in partitions:
                self._folders.at(log_dir, target).take(come_from, partition)
