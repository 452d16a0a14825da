"""The embedded store: durable, atomic, one mutation of a thing at a time."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import uuid
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest

from drumlin.metadata.changes import (
    Change,
    ConfigsChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from drumlin.metadata.database import FILE_NAME, UnreadableMetadata
from drumlin.metadata.image import BrokerState, PartitionId, PartitionState, Resource, ResourceType
from drumlin.metadata.sqlite import SqliteMetadata
from drumlin.wire.errors import ErrorCode, KafkaError

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


def setting(**changes: str | None) -> Callable[[Mapping[str, str]], dict[str, str | None]]:
    return lambda current: {key.replace("_", "."): value for key, value in changes.items()}


def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    async def fill(store: SqliteMetadata) -> None:
        assert store.is_new
        await store.note_adopted()
        topic = await store.create_topic("events", [[1], [1, 2]], {"retention.ms": "5"})
        await store.add_partitions("events", 2, [[2, 1]])
        await store.create_topic("gone", [ONE_REPLICA], {"retention.ms": "7"})
        await store.delete_topic(store.image.topics["gone"].topic_id)
        await store.alter_configs(BROKER_DEFAULTS, setting(log_retention_ms="9"))
        seen.update(topic_id=topic.topic_id, cluster_id=store.image.cluster_id)

    async def check(store: SqliteMetadata) -> None:
        image = store.image
        assert not store.is_new
        assert image.cluster_id == seen["cluster_id"]
        assert len(image.cluster_id) == 22
        assert list(image.topics) == ["events"]
        topic = image.topics_by_id[seen["topic_id"]]
        assert topic.partitions == (
            PartitionState(0, leader=1, leader_epoch=0, replicas=(1,), isr=(1,)),
            PartitionState(1, leader=1, leader_epoch=0, replicas=(1, 2), isr=(1, 2)),
            PartitionState(2, leader=2, leader_epoch=0, replicas=(2, 1), isr=(2, 1)),
        )
        assert image.topic_configs("events") == {"retention.ms": "5"}
        assert image.topic_configs("gone") == {}
        assert image.configs(BROKER_DEFAULTS) == {"log.retention.ms": "9"}

    with_store(tmp_path, fill)
    with_store(tmp_path, check)


def test_a_deletion_is_known_to_one_more_process_than_has_folders_of_the_topic(
    tmp_path: Path,
) -> None:
    seen: dict[str, uuid.UUID] = {}

    async def delete(store: SqliteMetadata) -> None:
        topic_id = seen["id"] = (await store.create_topic("t", [ONE_REPLICA], {})).topic_id
        assert not store.was_deleted(topic_id)
        assert not store.was_any_deleted()
        await store.delete_topic(topic_id)
        assert store.was_deleted(topic_id)
        assert store.was_any_deleted()

    async def remove_folders(store: SqliteMetadata) -> None:
        assert store.deleted_topics == {seen["id"]: None}
        await store.note_folders_left({seen["id"]: []})
        assert store.deleted_topics == {}
        assert store.was_deleted(seen["id"])

    async def still_know(store: SqliteMetadata) -> None:
        assert store.deleted_topics == {}
        assert store.was_deleted(seen["id"])

    async def forget(store: SqliteMetadata) -> None:
        assert not store.was_deleted(seen["id"])

    for scenario in (delete, remove_folders, still_know, forget):
        with_store(tmp_path, scenario)


def test_changes_are_reported_once_the_image_shows_them(tmp_path: Path) -> None:
    async def scenario(store: SqliteMetadata) -> None:
        changes: list[Change] = []
        shown: list[bool] = []

        def listener(change: Change) -> None:
            changes.append(change)
            shown.append("events" in store.image.topics)

        store.on_change(listener)
        await store.create_topic("events", [ONE_REPLICA], {"retention.ms": "5"})
        await store.add_partitions("events", 1, [ONE_REPLICA])
        resource = Resource(ResourceType.TOPIC, "events")
        await store.alter_configs(resource, setting(retention_ms=None, segment_ms="8"))
        topic = store.image.topics["events"]
        await store.delete_topic(topic.topic_id)
        created, added, configured, deleted = changes
        assert isinstance(created, TopicCreated)
        assert created.configs == {"retention.ms": "5"}
        assert isinstance(added, PartitionsAdded)
        assert [each.index for each in added.partitions] == [1]
        assert configured == ConfigsChanged(resource, {"segment.ms": "8"})
        assert deleted == TopicDeleted(topic)
        assert shown == [True, True, True, False]

    with_store(tmp_path, scenario)


def test_of_concurrent_creations_one_wins(tmp_path: Path) -> None:
    async def scenario(store: SqliteMetadata) -> None:
        results = await asyncio.gather(
            *(store.create_topic("events", [ONE_REPLICA], {}) for _ in range(5)),
            return_exceptions=True,
        )
        errors = [each for each in results if isinstance(each, KafkaError)]
        assert len(errors) == 4
        assert {error.code for error in errors} == {ErrorCode.topic_already_exists}
        assert errors[0].message == "there is a topic events already"

    with_store(tmp_path, scenario)


def test_many_mutations_share_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from drumlin.metadata.database import Database

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
        assert len(commits) <= 3

    with_store(tmp_path, scenario)


def test_a_cancelled_caller_leaves_image_and_file_alike(tmp_path: Path) -> None:
    async def scenario(store: SqliteMetadata) -> None:
        caller = asyncio.create_task(_create(store))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        with pytest.raises(KafkaError, match="there is a topic events already"):
            await store.create_topic("events", [ONE_REPLICA], {})
        assert "events" in store.image.topics

    async def _create(store: SqliteMetadata) -> None:
        await store.create_topic("events", [ONE_REPLICA], {})

    with_store(tmp_path, scenario)


def test_alterations_see_each_other(tmp_path: Path) -> None:
    async def scenario(store: SqliteMetadata) -> None:
        def append(entry: str) -> Callable[[Mapping[str, str]], dict[str, str | None]]:
            return lambda now: {"list": ",".join(filter(None, [now.get("list"), entry]))}

        await asyncio.gather(
            *(store.alter_configs(BROKER_DEFAULTS, append(entry)) for entry in "abc")
        )
        assert store.image.configs(BROKER_DEFAULTS) == {"list": "a,b,c"}

    with_store(tmp_path, scenario)


def test_a_refused_alteration_changes_nothing(tmp_path: Path) -> None:
    async def scenario(store: SqliteMetadata) -> None:
        def refuse(_: Mapping[str, str]) -> dict[str, str | None]:
            raise KafkaError(ErrorCode.invalid_config, "no")

        with pytest.raises(KafkaError, match="no"):
            await store.alter_configs(BROKER_DEFAULTS, refuse)
        assert store.image.configs(BROKER_DEFAULTS) == {}

    with_store(tmp_path, scenario)


def test_a_failed_write_is_answered_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drumlin.metadata.database import Database

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
    from drumlin.metadata.database import Database, put_value

    opened = Database(tmp_path / FILE_NAME)
    with pytest.raises(sqlite3.Error):
        opened.execute_durably([put_value("a", 1), ("INSERT INTO nowhere VALUES (1)", ())])
    assert opened.value("a") is None
    opened.execute_durably([put_value("a", 2)])
    assert opened.value("a") == 2
    opened.close()


def test_partitions_are_added_to_the_expected_number_only(tmp_path: Path) -> None:
    async def scenario(store: SqliteMetadata) -> None:
        await store.create_topic("events", [ONE_REPLICA], {})
        with pytest.raises(KafkaError) as caught:
            await store.add_partitions("events", 5, [ONE_REPLICA])
        assert caught.value.code is ErrorCode.invalid_partitions
        with pytest.raises(KafkaError) as caught:
            await store.add_partitions("nowhere", 1, [ONE_REPLICA])
        assert caught.value.code is ErrorCode.unknown_topic_or_partition
        with pytest.raises(KafkaError) as caught:
            await store.delete_topic(uuid.uuid4())
        assert caught.value.code is ErrorCode.unknown_topic_id

    with_store(tmp_path, scenario)


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    blocks = []

    async def take(store: SqliteMetadata) -> None:
        blocks.extend(await asyncio.gather(*(store.next_producer_id_block() for _ in range(3))))

    with_store(tmp_path, take)
    with_store(tmp_path, take)
    assert [block.first for block in blocks] == [0, 1000, 2000, 3000, 4000, 5000]


def test_leader_epochs_advance_together(tmp_path: Path) -> None:
    async def fill(store: SqliteMetadata) -> None:
        await store.create_topic("adopted", [ONE_REPLICA], {}, first_leader_epoch=41)
        await store.create_topic("events", [ONE_REPLICA, ONE_REPLICA], {})
        store.advance_leader_epochs()
        assert _epochs(store) == [42, 1, 1]

    async def check(store: SqliteMetadata) -> None:
        assert sorted(_epochs(store)) == [1, 1, 42]

    def _epochs(store: SqliteMetadata) -> list[int]:
        topics = store.image.topics.values()
        return [each.leader_epoch for topic in topics for each in topic.partitions]

    with_store(tmp_path, fill)
    with_store(tmp_path, check)


def test_leader_epochs_of_some_partitions_advance(tmp_path: Path) -> None:
    def epochs(store: SqliteMetadata) -> list[int]:
        return [each.leader_epoch for each in store.image.topics["events"].partitions]

    async def fill(store: SqliteMetadata) -> None:
        topic = await store.create_topic("events", [ONE_REPLICA] * 3, {})
        gone = PartitionId(uuid.uuid4(), 0)
        some = {PartitionId(topic.topic_id, 0), PartitionId(topic.topic_id, 2), gone}
        await asyncio.gather(
            store.add_partitions("events", 3, [ONE_REPLICA]), store.advance_leader_epochs_of(some)
        )
        await store.advance_leader_epochs_of({PartitionId(topic.topic_id, 3)})
        assert epochs(store) == [1, 0, 1, 1]

    async def check(store: SqliteMetadata) -> None:
        assert epochs(store) == [1, 0, 1, 1]

    with_store(tmp_path, fill)
    with_store(tmp_path, check)


def test_the_broker_of_this_process_leads(tmp_path: Path) -> None:
    async def scenario(store: SqliteMetadata) -> None:
        store.register_broker(BrokerState(1, "rack", ()))
        assert store.image.controller_id == 1
        assert list(store.image.brokers) == [1]

    with_store(tmp_path, scenario)


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
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(UnreadableMetadata, match="99"):
        SqliteMetadata.open(tmp_path)


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
