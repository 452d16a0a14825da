"""The embedded store's SQLite file: its schema, and the statements that change it. Blocking.

There is one connection, used by one thread at a time. In WAL mode with synchronous=FULL, a commit
that has returned survives a power failure; it costs one fsync.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from drumlin.metadata.embedded.first_contents import FirstContents
from drumlin.metadata.image import (
    ClusterImage,
    LastKnown,
    LogEnd,
    PartitionState,
    Resource,
    ResourceType,
    TopicState,
)
from drumlin.version import __version__

_log = logging.getLogger(__name__)

FILE_NAME: Final = "drumlin-metadata.sqlite"
#: The permission bits of a file's group and of all others.
_OTHERS: Final = 0o077
#: Keys of the table `cluster`.
CLUSTER_ID: Final = "cluster_id"
LOGS_ADOPTED: Final = "logs_adopted"
NEXT_PRODUCER_ID: Final = "next_producer_id"
#: The prefix of keys that end in a topic id.
_DELETED_TOPIC: Final = "deleted_topic."
#: The prefix of keys that end in a broker id; used if there are several brokers.
_BROKER_EPOCH_OF: Final = "broker_epoch."
#: Migrations: each brings a file from one schema version to the next. What an earlier program would
#: not understand, or would serve wrongly, takes a new version, even where no table changes: that
#: program then refuses the file, and says why.
_SCHEMAS: Final = (
    """
CREATE TABLE cluster (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE topics (
    topic_id BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE
) WITHOUT ROWID;
CREATE TABLE partitions (
    topic_id BLOB NOT NULL REFERENCES topics ON DELETE CASCADE,
    partition INTEGER NOT NULL,
    leader INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    replicas TEXT NOT NULL,
    isr TEXT NOT NULL,
    PRIMARY KEY (topic_id, partition)
) WITHOUT ROWID;
CREATE TABLE configs (
    resource_type INTEGER NOT NULL,
    resource_name TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (resource_type, resource_name, key)
) WITHOUT ROWID;
""",
    # Reassignments (KIP-455).
    """
ALTER TABLE partitions ADD COLUMN adding TEXT NOT NULL DEFAULT '[]';
ALTER TABLE partitions ADD COLUMN removing TEXT NOT NULL DEFAULT '[]';
""",
    # Eligible leader replicas (KIP-966).
    """
ALTER TABLE partitions ADD COLUMN elr TEXT NOT NULL DEFAULT '[]';
ALTER TABLE partitions ADD COLUMN last_known TEXT NOT NULL DEFAULT '[]';
ALTER TABLE partitions ADD COLUMN last_leader INTEGER NOT NULL DEFAULT -1;
""",
    # Users, ACLs, quotas and delegation tokens among the configs.
    "",
)

#: SQL and its parameters.
Statement = tuple[str, Sequence[Any]]


class UnreadableMetadata(Exception):
    """The file is not a metadata database of Drumlin, or comes from a later version."""


def names_of_files() -> tuple[str, ...]:
    """The names of all files of a database in WAL mode."""
    return (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm")


class Snapshot:
    """A database as it is when this is made, to copy; others may use it meanwhile. Blocks."""

    def __init__(self, source: Path) -> None:
        """
        Raises:
            sqlite3.Error: the database can't be read.
        """
        self._source = sqlite3.connect(
            f"{source.as_uri()}?mode=ro", uri=True, check_same_thread=False, isolation_level=None
        )
        try:
            self._source.execute("BEGIN")
            self._source.execute("SELECT count(*) FROM cluster").fetchone()  # begins it indeed
        except BaseException:
            self._source.close()
            raise

    def copy(self, target: Path) -> None:
        """
        Raises:
            sqlite3.Error: the copy can't be written.
        """
        with contextlib.closing(sqlite3.connect(target)) as copy:
            self._source.backup(copy)
            target.chmod(0o600)

    def close(self) -> None:
        self._source.close()


def is_begun(path: Path) -> bool:
    """Whether the file exists and names its cluster; the first start may have crashed before it
    wrote the name.

    Raises:
        UnreadableMetadata: the file cannot be used.
    """
    if not path.exists():
        return False
    try:
        with contextlib.closing(Database(path)) as opened:
            return opened.value(CLUSTER_ID) is not None
    except sqlite3.Error as error:
        raise UnreadableMetadata(f"{path}: {error}") from error


class Database:
    """One open metadata file."""

    def __init__(self, path: Path) -> None:
        """Open the file; create it if it does not exist.

        Raises:
            UnreadableMetadata: the file cannot be used.
        """
        try:
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._create_tables(path)
        except sqlite3.Error as error:
            raise UnreadableMetadata(f"{path}: {error}") from error

    def _create_tables(self, path: Path) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        newest = len(_SCHEMAS)
        if version > newest:
            raise UnreadableMetadata(
                f"{path} was written by a later version of Drumlin: its schema version is "
                f"{version}, and this is Drumlin {__version__}, which reads {newest}"
            )
        if version < newest:
            if version:
                _log.info("%s is brought to schema version %d from %d", path, newest, version)
            steps = "".join(_SCHEMAS[version:])
            self._connection.executescript(
                f"BEGIN; {steps} PRAGMA user_version = {newest}; COMMIT;"
            )

    def close(self) -> None:
        self._connection.close()

    def execute_durably(self, statements: Iterable[Statement]) -> None:
        """Execute statements in one transaction; returns when it is on disk.

        Raises:
            sqlite3.Error: the transaction was rolled back.
        """
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            for sql, parameters in statements:
                self._connection.execute(sql, parameters)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def value(self, key: str) -> Any:
        """A value of the table `cluster`, or None."""
        sql = "SELECT value FROM cluster WHERE key = ?"
        row = self._connection.execute(sql, (key,)).fetchone()
        return row[0] if row else None

    def deleted_topics(self) -> dict[UUID, tuple[str, ...] | None]:
        """Deleted topics, each with the log dirs that may still have its folders; None means any
        log dir.
        """
        sql = "SELECT key, value FROM cluster WHERE substr(key, 1, ?) = ?"
        rows = self._connection.execute(sql, (len(_DELETED_TOPIC), _DELETED_TOPIC))
        found: dict[UUID, tuple[str, ...] | None] = {}
        for key, value in rows:
            log_dirs = json.loads(value)
            found[UUID(key.removeprefix(_DELETED_TOPIC))] = (
                None if log_dirs is None else tuple(log_dirs)
            )
        return found

    def broker_epochs(self) -> dict[int, int]:
        """The last known broker epoch of each broker."""
        sql = "SELECT key, value FROM cluster WHERE substr(key, 1, ?) = ?"
        rows = self._connection.execute(sql, (len(_BROKER_EPOCH_OF), _BROKER_EPOCH_OF))
        return {int(key.removeprefix(_BROKER_EPOCH_OF)): epoch for key, epoch in rows}

    def load(self, cluster_id: str) -> ClusterImage:
        """The image of all stored metadata."""
        image = ClusterImage(cluster_id)
        partitions: dict[bytes, list[PartitionState]] = {}
        rows = self._connection.execute("SELECT * FROM partitions ORDER BY topic_id, partition")
        for topic_id, index, leader, leader_epoch, *brokers, known, last_leader in rows:
            replicas, isr, adding, removing, elr = (tuple(json.loads(each)) for each in brokers)
            state = PartitionState(
                index,
                leader,
                leader_epoch,
                replicas,
                isr,
                adding=adding,
                removing=removing,
                elr=elr,
                last_known=tuple(
                    LastKnown(node_id, LogEnd(epoch, end), complete)
                    for node_id, epoch, end, complete in json.loads(known)
                ),
                last_leader=last_leader,
            )
            partitions.setdefault(topic_id, []).append(state)
        for topic_id, name in self._connection.execute("SELECT topic_id, name FROM topics"):
            states = tuple(partitions.get(topic_id, ()))
            image.put_topic(TopicState(name, UUID(bytes=topic_id), states))
        configs: dict[Resource, dict[str, str]] = {}
        for resource_type, name, key, value in self._connection.execute("SELECT * FROM configs"):
            resource = Resource(ResourceType(resource_type), name)
            configs.setdefault(resource, {})[key] = value
        for resource, values in configs.items():
            image.put_configs(resource, values)
        return image


def put_value(key: str, value: Any) -> Statement:
    return "INSERT OR REPLACE INTO cluster VALUES (?, ?)", (key, value)


def take_over(contents: FirstContents) -> Iterator[Statement]:
    """Statements that give a new store these contents; no logs have to be adopted."""
    yield put_value(LOGS_ADOPTED, 1)
    yield put_value(NEXT_PRODUCER_ID, contents.next_producer_id)
    for topic in contents.topics:
        yield from put_topic(topic)
    for resource, configs in contents.configs.items():
        for key, value in configs.items():
            yield put_config(resource, key, value)
    for topic_id in contents.deleted:
        yield note_deleted(topic_id)


def put_topic(topic: TopicState) -> Iterator[Statement]:
    yield "INSERT INTO topics VALUES (?, ?)", (topic.topic_id.bytes, topic.name)
    yield from put_partitions(topic.topic_id, topic.partitions)


def put_partitions(topic_id: UUID, partitions: Iterable[PartitionState]) -> Iterator[Statement]:
    sql = "INSERT INTO partitions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    for each in partitions:
        yield sql, (topic_id.bytes, each.index, each.leader, each.leader_epoch, *_brokers(each))


def delete_topic(topic: TopicState) -> list[Statement]:
    configs = "DELETE FROM configs WHERE resource_type = ? AND resource_name = ?"
    return [
        ("DELETE FROM topics WHERE topic_id = ?", (topic.topic_id.bytes,)),
        (configs, (ResourceType.TOPIC, topic.name)),
        note_deleted(topic.topic_id),
    ]


def note_deleted(topic_id: UUID) -> Statement:
    """Note the deletion of a topic, whose folders may be in any log dir."""
    return put_value(_DELETED_TOPIC + topic_id.hex, json.dumps(None))


def put_folders_left(topic_id: UUID, log_dirs: Sequence[str]) -> Statement:
    """Note the log dirs that may still have folders of a deleted topic."""
    return put_value(_DELETED_TOPIC + topic_id.hex, json.dumps(log_dirs))


def put_broker_epoch(node_id: int, epoch: int) -> Statement:
    return put_value(f"{_BROKER_EPOCH_OF}{node_id}", epoch)


def forget_broker_epochs() -> Statement:
    """Forget all broker epochs, as the log dirs of new brokers have none."""
    sql = "DELETE FROM cluster WHERE substr(key, 1, ?) = ?"
    return sql, (len(_BROKER_EPOCH_OF), _BROKER_EPOCH_OF)


def forget_deletions() -> Statement:
    """Forget deleted topics that have no folders left."""
    sql = "DELETE FROM cluster WHERE substr(key, 1, ?) = ? AND value = '[]'"
    return sql, (len(_DELETED_TOPIC), _DELETED_TOPIC)


def put_config(resource: Resource, key: str, value: str | None) -> Statement:
    """Set a key, or remove it if `value` is None."""
    if value is None:
        sql = "DELETE FROM configs WHERE resource_type = ? AND resource_name = ? AND key = ?"
        return sql, (resource.type, resource.name, key)
    sql = "INSERT OR REPLACE INTO configs VALUES (?, ?, ?, ?)"
    return sql, (resource.type, resource.name, key, value)


def put_state(topic_id: UUID, state: PartitionState) -> Statement:
    sql = (
        "UPDATE partitions SET leader = ?, leader_epoch = ?, replicas = ?, isr = ?, adding = ?, "
        "removing = ?, elr = ?, last_known = ?, last_leader = ? "
        "WHERE topic_id = ? AND partition = ?"
    )
    where = topic_id.bytes, state.index
    return sql, (state.leader, state.leader_epoch, *_brokers(state), *where)


def _brokers(state: PartitionState) -> list[Any]:
    known = [[node_id, *log_end, complete] for node_id, log_end, complete in state.last_known]
    lists = state.replicas, state.isr, state.adding, state.removing, state.elr, known
    return [*(json.dumps(each) if each else "[]" for each in lists), state.last_leader]


def close_to_others(path: Path) -> None:
    """Let only the owner read the file, as it has users' credentials.

    SQLite gives its journals the mode of the file. If the file cannot be opened, SQLite itself
    reports that later.
    """
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        for each in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
            if each.exists() and each.stat().st_mode & _OTHERS:
                each.chmod(each.stat().st_mode & ~_OTHERS)
