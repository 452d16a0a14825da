"""The log dirs of a stopped broker whose embedded metadata is moved into ZooKeeper. Blocking.

Holds the locks of the log dirs, so that no broker uses them meanwhile. Never touches the log of a
partition, and changes nothing before `note_moved`.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, Self
from uuid import UUID

from drumlin.config.machine_folders import FOLDER
from drumlin.metadata.embedded.database import (
    CLUSTER_ID,
    FILE_NAME,
    LOGS_ADOPTED,
    NEXT_PRODUCER_ID,
    Database,
    UnreadableMetadata,
)
from drumlin.metadata.image import CONFIGURABLE, ClusterImage
from drumlin.metadata.opening import IN_ZOOKEEPER
from drumlin.storage.directory.directory_lock import DirectoryLock
from drumlin.storage.directory.meta_properties import read_meta_properties
from drumlin.storage.files.files import Files

#: The new name of the store's file when ZooKeeper has its contents.
SET_ASIDE: Final = f"{FILE_NAME}.adopted"


class AdoptionRefused(Exception):
    """A store cannot be moved into ZooKeeper, or into this chroot; the message is for operators."""


class EmbeddedStore(NamedTuple):
    """The contents of an embedded store.

    deleted: deleted topics, each with the log dirs that may still have its folders; None means any
        log dir.
    """

    image: ClusterImage
    next_producer_id: int
    deleted: Mapping[UUID, tuple[str, ...] | None]

    @property
    def fingerprint(self) -> str:
        """A fingerprint of the contents, to detect changes."""
        image = self.image
        topics = sorted(image.topics.values(), key=lambda topic: topic.name)
        configs = [(each, sorted(image.configs(each).items())) for each in image.all_configured()]
        known = (
            image.cluster_id,
            topics,
            sorted(configs),
            self.next_producer_id,
            sorted(self.deleted.items(), key=lambda each: each[0]),
        )
        return hashlib.sha256(repr(known).encode()).hexdigest()


class EmbeddedData:
    """The log dirs of one broker, locked within a `with`."""

    def __init__(self, log_dirs: Sequence[Path], node_id: int | None = None) -> None:
        """`node_id`: the broker's id, for log dirs that do not name it."""
        self._log_dirs = [path.absolute() for path in log_dirs]
        self._wanted_id = node_id
        self._locks: list[DirectoryLock] = []
        self.first = self._log_dirs[0]
        self.cluster_id: str | None = None
        self.node_id = -1

    def __enter__(self) -> Self:
        """Lock the log dirs.

        Raises:
            AdoptionRefused: the log dirs are in use, or belong to several brokers.
            OSError: a log dir cannot be read.
        """
        try:
            for path in self._log_dirs:
                self._lock(path)
            self._identify()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        for lock in self._locks:
            lock.release()
        self._locks.clear()

    def _lock(self, path: Path) -> None:
        if not path.is_dir():
            raise AdoptionRefused(f"there is no log dir {path}")
        lock = DirectoryLock(str(path))
        if not lock.acquire():
            raise AdoptionRefused(f"log dir {path} is in use: stop its broker first")
        self._locks.append(lock)

    def _identify(self) -> None:
        cluster_ids, node_ids = set(), set()
        for path in self._log_dirs:
            if (path / FOLDER).is_dir():
                raise _several_brokers(self.first)
            try:
                known = read_meta_properties(str(path), Files())
            except ValueError as error:
                raise AdoptionRefused(f"meta.properties in {path} can't be read: {error}") from None
            if known is not None:
                cluster_ids |= {known.cluster_id} - {None}
                node_ids |= {known.node_id} - {None}
        if len(cluster_ids) > 1 or len(node_ids) > 1:
            raise AdoptionRefused(
                "the log dirs are not of one broker, as their meta.properties say"
            )
        if self._wanted_id is not None:
            if node_ids - {self._wanted_id}:
                raise AdoptionRefused(
                    f"{self.first} belongs to broker {node_ids.pop()}, not {self._wanted_id}: "
                    "a broker keeps its id"
                )
            node_ids = {self._wanted_id}
        if not node_ids:
            raise AdoptionRefused(f"{self.first} does not say which broker's it is: give --node-id")
        self.node_id = next(each for each in node_ids if each is not None)
        self.cluster_id = next(iter(cluster_ids), None)

    @property
    def has_store(self) -> bool:
        """Whether the store's file still exists."""
        return (self.first / FILE_NAME).exists()

    @property
    def is_set_aside(self) -> bool:
        """Whether the last step is done, so that a broker starts with ZooKeeper."""
        return not self.has_store

    @property
    def moved_to(self) -> str | None:
        """The ZooKeeper that has the metadata, if the log dirs name it; else None."""
        said = _text_of(self.first / IN_ZOOKEEPER)
        return None if said is None else said.strip()

    def read(self) -> EmbeddedStore:
        """Read the store.

        Raises:
            AdoptionRefused: the store cannot be used, or belongs to several brokers.
        """
        try:
            with closing(Database(self.first / FILE_NAME)) as opened:
                cluster_id = opened.value(CLUSTER_ID)
                if cluster_id is None or opened.value(LOGS_ADOPTED) is None:
                    raise AdoptionRefused(
                        f"the {FILE_NAME} of {self.first} is not complete: start its broker once "
                        "without zookeeper.connect"
                    )
                image = opened.load(cluster_id)
                next_producer_id = int(opened.value(NEXT_PRODUCER_ID) or 0)
                deleted = opened.deleted_topics()
        except (UnreadableMetadata, sqlite3.Error) as error:
            raise AdoptionRefused(f"the metadata of {self.first} can't be read: {error}") from error
        if any(each.type not in CONFIGURABLE for each in image.all_configured()):
            raise AdoptionRefused(
                f"the metadata of {self.first} have ACLs, users, quotas or delegation tokens, "
                "which are not moved into ZooKeeper: remove them first"
            )
        if self.cluster_id not in (None, cluster_id):
            raise AdoptionRefused(
                f"the metadata of {self.first} is of cluster {cluster_id}, and its logs are of "
                f"cluster {self.cluster_id}"
            )
        if any(
            each.replicas != (self.node_id,)
            for topic in image.topics.values()
            for each in topic.partitions
        ):
            raise _several_brokers(self.first)
        for topic in list(image.topics.values()):
            states = {each.index: replace(each, isr=each.replicas) for each in topic.partitions}
            image.put_topic(topic.with_states(states))
        left = {each: log_dirs for each, log_dirs in deleted.items() if log_dirs != ()}
        return EmbeddedStore(image, next_producer_id, left)

    def note_moved(self, hosts: str) -> None:
        """Note in the log dirs that ZooKeeper has the metadata; no broker starts until `set_aside`.

        The first log dir is written last: its note implies those in the others.
        """
        said = f"{hosts}\n"
        for path in reversed(self._log_dirs):
            if _text_of(path / IN_ZOOKEEPER) != said:
                Files().replace_file(str(path / IN_ZOOKEEPER), said.encode())

    def set_aside(self) -> None:
        """Rename the store's file, so that a broker starts with ZooKeeper from now on."""
        (self.first / FILE_NAME).replace(self.first / SET_ASIDE)
        Files().sync_directory(str(self.first))


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def _several_brokers(path: Path) -> AdoptionRefused:
    return AdoptionRefused(
        f"{path} has the data of several brokers (--brokers): go back to one first, by a start of "
        "'drumlin server --brokers 1'"
    )
