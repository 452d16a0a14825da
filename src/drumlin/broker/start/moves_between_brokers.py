"""Moves of partitions between the brokers of a machine when the number of brokers has changed.

Moves are made before any broker runs. A log stays in its log dir: its folder is renamed into, or
out of, the folder that a broker has there. First the metadata records which folders will move; then
checkpoints are copied and folders renamed; then the metadata gets the new replicas. After a crash
the next start first moves the folders back to where the metadata says they are, and begins again.
Only deleted topics are removed, and surplus logs of replicas whose broker has been removed: never
the best log of a partition, and none while another log of it may be unreachable.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.broker.start.machine_locks import Locks
from drumlin.broker.start.placing import Logs, Placement, place
from drumlin.broker.start.startup import StartFailed
from drumlin.clock import SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.config.machine_folders import FOLDER, folder_of
from drumlin.metadata.embedded import database
from drumlin.metadata.embedded.database import Database, UnreadableMetadata
from drumlin.metadata.image import PartitionId, TopicState
from drumlin.storage.all_logs.idle_directory import IdleDirectory, Partition
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.directory.meta_properties import read_meta_properties
from drumlin.storage.directory.partition_metadata import NO_TOPIC_ID, read_topic_id
from drumlin.storage.files.files import Files
from drumlin.storage.files.folder_marker import may_have_left
from drumlin.storage.files.open_files import OpenFiles
from drumlin.storage.recovery.moved_folders import complete_moves

_log = logging.getLogger(__name__)

#: Key in the metadata: the brokers on which partitions were placed last.
_PLACED: Final = "brokers_of_machine"
#: Key in the metadata: folders that may be moving, each with its source and target.
_UNDER_WAY: Final = "folders_under_way"


def move_partitions(config: BrokerConfig, brokers: int) -> None:
    """Move folders of partitions, and update the metadata, for this number of brokers. Blocks.

    The caller holds the locks of these brokers' log dirs, so nothing else uses them.

    Raises:
        StartFailed: the message is one line with the reason.
    """
    paths = [str(Path(path).absolute()) for path in config.log_dirs]
    file = Path(paths[0], database.FILE_NAME)
    if not file.exists() or not _is_of(config.node_id, paths):
        return  # there is no metadata, or opening it later reports the error
    node_ids = range(config.node_id, config.node_id + brokers)
    try:
        with closing(Database(file)) as opened:
            placed = json.loads(opened.value(_PLACED) or f"[{config.node_id}]")
            gone = {
                each: [folder_of(path, each - config.node_id, each) for path in of_it]
                for each, of_it in _folders_of_others(paths).items()
                if each not in node_ids
            }
            with Locks(gone):
                folders = _Folders(config.node_id, paths)
                if placed != list(node_ids):
                    _Move(opened, folders, node_ids).run()
                folders.remove_empty(gone, opened.deleted_topics())
    except UnreadableMetadata:
        return  # as above
    except (OSError, sqlite3.Error) as error:
        raise StartFailed(f"partitions cannot be moved between brokers: {error}") from error


def has_folders(config: BrokerConfig) -> bool:
    """Whether more than one broker has folders in the readable log dirs."""
    for path in config.log_dirs:
        with suppress(OSError):
            if Path(path, FOLDER).is_dir():
                return True
    return False


def is_empty(config: BrokerConfig) -> bool:
    """Whether there are no logs in the readable log dirs. Blocks."""
    for path in config.log_dirs:
        with suppress(OSError):
            if IdleDirectory(path, Files()).partitions:
                return False
    return True


def note_placed(node_ids: Sequence[int]) -> database.Statement:
    """The SQL statement that records on which brokers the partitions are placed."""
    return database.put_value(_PLACED, json.dumps(list(node_ids)))


def _is_of(node_id: int, paths: Sequence[str]) -> bool:
    """Whether the log dirs belong to the broker that is now the first."""
    for path in paths:
        with suppress(OSError, ValueError):
            known = read_meta_properties(path, Files())
            if known is not None and known.node_id not in (None, node_id):
                return False
    return True


class _Folders:
    """The folders of all brokers in all readable log dirs."""

    def __init__(self, first: int, log_dirs: Sequence[str]) -> None:
        self._first = first
        self._files = Files()
        self._log_dirs = log_dirs
        self._found: dict[tuple[str, int], IdleDirectory] = {}
        #: Whether a log dir cannot be read, so there may be more folders.
        self.is_partial = False
        for log_dir in log_dirs:
            try:
                for node_id in (first, *_folders_in(log_dir)):
                    self._read(log_dir, node_id)
            except OSError as error:
                self._leave_alone(log_dir, error)

    def _read(self, log_dir: str, node_id: int) -> IdleDirectory:
        path = folder_of(log_dir, node_id - self._first, node_id)
        found = self._found[log_dir, node_id] = IdleDirectory(path, self._files)
        return found

    def _leave_alone(self, path: str, error: OSError) -> None:
        self.is_partial = True
        _log.warning("%s is left alone: %s", path, error)

    def complete_changes(self) -> None:
        """Finish interrupted moves between log dirs, as the start of a broker does.

        Raises:
            OSError: a log dir fails.
        """
        open_files = OpenFiles(self._files)
        for node_id in {node_id for _, node_id in self._found}:
            directories = []
            for log_dir in self._log_dirs:
                path = folder_of(log_dir, node_id - self._first, node_id)
                directory = LogDirectory(path, open_files, SystemClock())
                if (log_dir, node_id) in self._found:
                    directories.append(directory)
                elif self.is_partial:
                    directory.failure = OSError("it cannot be read")
                    directories.append(directory)
            online = [each for each in directories if each.is_online]
            complete_moves(directories)
            for directory in online:
                if directory.failure is not None:
                    raise directory.failure
        for log_dir, node_id in self._found:
            self._read(log_dir, node_id)

    def of(self, topic: TopicState, index: int) -> dict[int, str]:
        """Brokers that have a folder of the partition, with the log dir of each."""
        partition = topic.name, index
        found = {}
        for (log_dir, node_id), each in self._found.items():
            if partition in each.partitions:
                path = each.folder(partition)
                try:
                    topic_id = read_topic_id(path, self._files)
                except OSError as error:
                    self._leave_alone(path, error)
                    continue
                has_left = self.is_partial and may_have_left(path, topic_id, self._files)
                if topic_id in (topic.topic_id, NO_TOPIC_ID) and not has_left:
                    found[node_id] = log_dir
        return found

    def at(self, log_dir: str, node_id: int) -> IdleDirectory:
        """A broker's folder in a log dir, which is created if it does not exist."""
        found = self._found.get((log_dir, node_id))
        if found is None:
            self._files.make_directory(folder_of(log_dir, node_id - self._first, node_id))
            found = self._read(log_dir, node_id)
        return found

    def sync(self) -> None:
        for each in self._found.values():
            each.sync()
        for log_dir in self._log_dirs:
            for path in (f"{log_dir}/{FOLDER}", log_dir):
                with suppress(FileNotFoundError):
                    self._files.sync_directory(path)

    def remove_empty(self, node_ids: Collection[int], deleted: Collection[UUID]) -> None:
        """Remove the folders of brokers that no longer exist, if they have nothing except folders
        of deleted topics.
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


def _folders_of_others(log_dirs: Sequence[str]) -> dict[int, list[str]]:
    """All brokers but the first, with the log dirs in which they have a folder."""
    found: dict[int, list[str]] = {}
    for log_dir in log_dirs:
        with suppress(OSError):
            for node_id in _folders_in(log_dir):
                found.setdefault(node_id, []).append(log_dir)
    return found


def _folders_in(log_dir: str) -> Iterator[int]:
    try:
        names = [each.name for each in Path(log_dir, FOLDER).iterdir()]
    except FileNotFoundError:
        return
    yield from (int(name) for name in names if re.fullmatch("0|[1-9][0-9]*", name))


class _Move:
    """One change of the number of brokers."""

    def __init__(self, opened: Database, folders: _Folders, node_ids: Sequence[int]) -> None:
        self._opened = opened
        self._folders = folders
        self._node_ids = node_ids
        self._image = opened.load("")

    def run(self) -> None:
        """
        Raises:
            OSError, sqlite3.Error: the change is incomplete; the next start repeats it.
        """
        # A start with the previous number of brokers must not assume that the folders are still in
        # place.
        self._opened.execute_durably([note_placed(())])
        self._folders.complete_changes()
        left = self._take_back()
        placements, found, missing = self._place()
        drops = [
            (found[partition][node_id], node_id, self._named(partition))
            for partition, placement in placements.items()
            for node_id in placement.dropped
            if node_id in found[partition]
        ]
        for log_dir, node_id, name in drops:
            self._folders.at(log_dir, node_id).drop(name)
        # Durable, so a folder that is found at its target must have come from its source.
        self._folders.sync()
        moves = [
            _FolderMove(partition, source, target)
            for partition, placement in placements.items()
            for source, target in placement.moves
            if source in found[partition]
        ]
        self._opened.execute_durably([_note_under_way([*left, *moves])])
        self._move(moves, found)
        statements = [
            database.put_state(partition.topic_id, placement.state)
            for partition, placement in placements.items()
        ]
        statements += [database.forget_broker_epochs(), _note_under_way(left)]
        if not left and not missing:
            statements.append(note_placed(self._node_ids))
        self._opened.execute_durably(statements)
        _log.info(
            "%d partitions were moved, as there are %d brokers", len(moves), len(self._node_ids)
        )

    def _take_back(self) -> list[_FolderMove]:
        """Undo the moves of an interrupted start; returns those whose folder is unreachable."""
        back, left, found = [], [], {}
        for topic_id, *rest in json.loads(self._opened.value(_UNDER_WAY) or "[]"):
            index, source, target = rest
            topic = self._image.topics_by_id.get(UUID(topic_id))
            if topic is None:
                continue
            partition = PartitionId(topic.topic_id, index)
            there = found[partition] = self._folders.of(topic, index)
            if source in there:
                continue
            if target in there:
                back.append(_FolderMove(partition, target, source))
            elif self._folders.is_partial:
                left.append(_FolderMove(partition, source, target))
        self._move(back, found)
        return left

    def _place(
        self,
    ) -> tuple[dict[PartitionId, Placement], dict[PartitionId, dict[int, str]], bool]:
        """The new placements, the folders of these partitions, and whether other partitions have no
        folder.

        A missing folder may just be unreachable, so partitions without one stay as they are.
        """
        found = {
            PartitionId(topic.topic_id, state.index): self._folders.of(topic, state.index)
            for topic in self._image.topics.values()
            for state in topic.partitions
        }
        logs: dict[PartitionId, Logs] = {
            partition: {
                node_id: self._folders.at(log_dir, node_id).is_clean(self._named(partition))
                for node_id, log_dir in there.items()
            }
            for partition, there in found.items()
        }
        placements = place(self._image.topics.values(), self._node_ids, logs)
        missing = [each for each in placements if self._may_be_elsewhere(each, found[each])]
        for partition in missing:
            del placements[partition]
            _log.warning("%s-%d is not moved: a log of it is not found", *self._named(partition))
        return placements, found, bool(missing)

    def _may_be_elsewhere(self, partition: PartitionId, found: Collection[int]) -> bool:
        state = self._image.topics_by_id[partition.topic_id].partitions[partition.partition]
        return self._folders.is_partial and not set(state.replicas) <= set(found)

    def _named(self, partition: PartitionId) -> Partition:
        return self._image.topics_by_id[partition.topic_id].name, partition.partition

    def _move(
        self, moves: Iterable[_FolderMove], found: Mapping[PartitionId, Mapping[int, str]]
    ) -> None:
        """Rename folders, durably."""
        together: dict[tuple[str, int, int], list[Partition]] = {}
        for partition, source, target in moves:
            key = found[partition][source], source, target
            together.setdefault(key, []).append(self._named(partition))
        for (log_dir, source, target), partitions in together.items():
            come_from, come_to = (self._folders.at(log_dir, each) for each in (source, target))
            come_to.expect(come_from, partitions)
            for name in partitions:
                come_to.take(come_from, name)
        self._folders.sync()


class _FolderMove(NamedTuple):
    partition: PartitionId
    source: int
    target: int


def _note_under_way(moves: Iterable[_FolderMove]) -> database.Statement:
    """The SQL statement that records which folders may be moving between brokers."""
    rows = [[each.topic_id.hex, each.partition, *way] for each, *way in moves]
    return database.put_value(_UNDER_WAY, json.dumps(rows))
