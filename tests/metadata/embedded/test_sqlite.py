"""The embedded store's file; what every store does is in test_conformance.py."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from drumlin.metadata.embedded import database
from drumlin.metadata.embedded.database import FILE_NAME, Database, UnreadableMetadata
from drumlin.metadata.embedded.sqlite import SqliteMetadata
from drumlin.metadata.image import (
    NO_LEADER,
    BrokerState,
    PartitionId,
    PartitionState,
    Resource,
    ResourceType,
)
from drumlin.metadata.store.changes import Change, PartitionsChanged
from drumlin.wire.error_codes import ErrorCode, KafkaError
from metadata.stores import embedded_store

ONE_REPLICA = [1]
BROKER_DEFAULTS = Resource(ResourceType.BROKER, "")


def with_store(
    directory: Path, scenario: Callable[[SqliteMetadata], Coroutine[Any, Any, None]]
) -> None:
    """Open the store, run the scenario, close it."""

    async def run() -> None:
        store = SqliteMetadata.open(directory)
        try:
            await scenario(store)
        finally:
            await store.close()

    asyncio.run(run())


def test_its_owner_alone_reads_it(tmp_path: Path) -> None:
    """It has the users' credentials, whatever the umask is."""

    def check_modes() -> None:
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        assert len(modes) == 3
        assert set(modes.values()) == {0o600}, modes

    async def checked(_: object) -> None:
        check_modes()

    before = os.umask(0o022)
    try:
        with_store(tmp_path, checked)
        with contextlib.closing(Database(tmp_path / FILE_NAME)):
            for path in tmp_path.iterdir():
                path.chmod(0o644)
            database.close_to_others(tmp_path / FILE_NAME)
            check_modes()
        with_store(tmp_path, checked)
    finally:
        os.umask(before)


def test_a_new_store_is_to_be_adopted_once(tmp_path: Path) -> None:
    async def adopt(store: SqliteMetadata) -> None:
        assert store.adoption is not None
        await store.adoption.note_adopted(5000)
        assert store.adoption is None

    async def check(store: SqliteMetadata) -> None:
        assert store.adoption is None
        assert (await store.next_producer_id_block()).first == 5000

    with_store(tmp_path, adopt)
    with_store(tmp_path, check)


def test_each_commit_waits_for_the_disk(tmp_path: Path) -> None:
    """With WAL and anything less, what was acknowledged is lost in a power failure."""
    database = Database(tmp_path / FILE_NAME)
    (synchronous,) = database._connection.execute("PRAGMA synchronous").fetchone()
    (journal,) = database._connection.execute("PRAGMA journal_mode").fetchone()
    database.close()
    assert (synchronous, journal) == (2, "wal"), "FULL"


def test_many_mutations_share_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from drumlin.metadata.embedded.database import Database

    commits = []
    execute = Database.execute_durably

    def counted(self: Database, statements: Any) -> None:
        commits.append(1)
        execute(self, statements)

    async def scenario(store: SqliteMetadata) -> None:
        monkeypatch.setattr(Database, "execute_durably", counted)
        names = [f"topic-{number}" for number in range(200)]
        await asyncio.gather(*(store.create_topic(name, [ONE_REPLICA], {}) for name in names))
        assert len(store.image.topics) == 200
        assert len(commits) <= 20  # as many as the loop needs turns for the rest

    with_store(tmp_path, scenario)


def test_a_failed_write_is_answered_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drumlin.metadata.embedded.database import Database

    def fail(self: Database, statements: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def scenario(store: SqliteMetadata) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Database, "execute_durably", fail)
            with pytest.raises(KafkaError) as caught:
                await store.create_topic("events", [ONE_REPLICA], {})
        assert caught.value.code is ErrorCode.kafka_storage_error
        assert store.image.topics == {}
        await store.create_topic("events", [ONE_REPLICA], {})

    with_store(tmp_path, scenario)


def test_a_transaction_that_fails_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    from drumlin.metadata.embedded.database import Database, put_value

    opened = Database(tmp_path / FILE_NAME)
    with pytest.raises(sqlite3.Error):
        opened.execute_durably([put_value("a", 1), ("INSERT INTO nowhere VALUES (1)", ())])
    assert opened.value("a") is None
    opened.execute_durably([put_value("a", 2)])
    assert opened.value("a") == 2
    opened.close()


def test_a_store_of_another_cluster_is_refused(tmp_path: Path) -> None:
    SqliteMetadata.open(tmp_path, "AAAAAAAAAAAAAAAAAAAAAA")
    with pytest.raises(UnreadableMetadata, match="belongs to cluster AAAA"):
        SqliteMetadata.open(tmp_path, "BBBBBBBBBBBBBBBBBBBBBB")


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database, but long enough to look at" * 100)
    with pytest.raises(UnreadableMetadata, match="not a database"):
        SqliteMetadata.open(tmp_path)


def test_a_later_schema_is_refused(tmp_path: Path) -> None:
    SqliteMetadata.open(tmp_path)
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version + 1}")
    told = f"{FILE_NAME} was written by a later version.* version is {version + 1}"
    with pytest.raises(UnreadableMetadata, match=told):
        SqliteMetadata.open(tmp_path)


def test_a_store_of_before_reassignments_is_brought_up_to_date(tmp_path: Path) -> None:
    topic_id = b"\0" * 15 + b"\7"
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.executescript(
            """
            CREATE TABLE cluster (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
            CREATE TABLE topics (
                topic_id BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE
            ) WITHOUT ROWID;
            CREATE TABLE partitions (
                topic_id BLOB NOT NULL REFERENCES topics ON DELETE CASCADE,
                partition INTEGER NOT NULL, leader INTEGER NOT NULL, leader_epoch INTEGER NOT NULL,
                replicas TEXT NOT NULL, isr TEXT NOT NULL, PRIMARY KEY (topic_id, partition)
            ) WITHOUT ROWID;
            CREATE TABLE configs (
                resource_type INTEGER NOT NULL, resource_name TEXT NOT NULL, key TEXT NOT NULL,
                value TEXT NOT NULL, PRIMARY KEY (resource_type, resource_name, key)
            ) WITHOUT ROWID;
            PRAGMA user_version = 1;
            """
        )
        connection.execute("INSERT INTO topics VALUES (?, 't')", (topic_id,))
        connection.execute(
            "INSERT INTO partitions VALUES (?, 0, 1, 4, '[1, 2]', '[1]')", (topic_id,)
        )

    async def look(store: SqliteMetadata) -> None:
        assert store.image.topics["t"].partitions == (PartitionState(0, 1, 4, (1, 2), (1,)),)
        await store.add_partitions("t", 1, [ONE_REPLICA])

    with_store(tmp_path, look)

    async def look_again(store: SqliteMetadata) -> None:
        assert len(store.image.topics["t"].partitions) == 2

    with_store(tmp_path, look_again)


def test_who_is_the_only_replica_left_leads_what_nobody_led(tmp_path: Path) -> None:
    """Brokers of one machine have stopped while the one that led was away."""
    nobody = PartitionState(0, NO_LEADER, 4, (1,), (1,), last_leader=1)
    without_a_good_log = PartitionState(1, NO_LEADER, 4, (1,), ())
    changes: list[Change] = []

    async def leave(store: SqliteMetadata) -> None:
        topic = await store.create_topic("t", [ONE_REPLICA] * 3, {})
        states = nobody, without_a_good_log
        await store.commit([database.put_state(topic.topic_id, each) for each in states])

    async def start() -> None:
        store = embedded_store(tmp_path)
        await store.register_broker(BrokerState(1, None, ()))
        store.on_change(changes.append)
        topic = store.image.topics["t"]
        assert topic.partitions[0] == PartitionState(0, 1, 5, (1,), (1,), partition_epoch=1)
        assert topic.partitions[1] == without_a_good_log
        asked = [PartitionId(topic.topic_id, index) for index in range(3)]
        outcomes = await store.elect_leaders(asked, is_unclean=False)
        codes = [each.code for each in outcomes.values() if isinstance(each, KafkaError)]
        assert codes == [
            ErrorCode.election_not_needed,
            ErrorCode.preferred_leader_not_available,
            ErrorCode.election_not_needed,
        ]
        assert not changes
        led = PartitionState(1, 1, 5, (1,), (1,), partition_epoch=1)
        assert await store.elect_leaders(asked[1:2], is_unclean=True) == {asked[1]: led}
        assert changes == [PartitionsChanged(store.image.topics["t"], (led,))]
        assert (store.elections.elections, store.elections.unclean) == (2, 1)
        await store.close()

    async def look_again(store: SqliteMetadata) -> None:
        assert [each.leader for each in store.image.topics["t"].partitions] == [1, 1, 1]

    with_store(tmp_path, leave)
    asyncio.run(start())
    with_store(tmp_path, look_again)


def test_what_is_stored_of_many_partitions_is_made_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_in: list[int] = []
    dumps = json.dumps

    def dumping(*arguments: Any, **options: Any) -> str:
        made_in.append(threading.get_ident())
        return dumps(*arguments, **options)

    async def fill(store: SqliteMetadata) -> None:
        monkeypatch.setattr(json, "dumps", dumping)
        await store.create_topic("wide", [ONE_REPLICA] * 500, {})
        await store.add_partitions("wide", 500, [ONE_REPLICA] * 500)

    async def look(store: SqliteMetadata) -> None:
        partitions = store.image.topics["wide"].partitions
        assert [each.index for each in partitions] == list(range(1000))

    with_store(tmp_path, fill)
    assert len(made_in) >= 1000
    assert threading.get_ident() not in made_in
    with_store(tmp_path, look)
